"""A local cluster of Ray for the tests of this folder; without Ray they say so and skip."""

import logging
import os
import warnings

import pytest


@pytest.fixture(scope="session")
def kernel_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    return folder


@pytest.fixture(scope="session")
def started_cluster(kernel_folder):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'gradtape[ray]'")
    before = os.environ.get("GRADTAPE_KERNEL_CACHE")
    # Workers inherit the folder, and share kernels with the driver.
    os.environ["GRADTAPE_KERNEL_CACHE"] = str(kernel_folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(
                num_cpus=4,
                include_dashboard=False,
                object_store_memory=200 << 20,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    finally:
        if before is None:
            del os.environ["GRADTAPE_KERNEL_CACHE"]
        else:
            os.environ["GRADTAPE_KERNEL_CACHE"] = before
    yield ray
    ray.shutdown()


@pytest.fixture
def ray(started_cluster, kernel_folder, monkeypatch):
    """The cluster, with the driver's kernels in the folder that workers look into."""
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(kernel_folder))
    return started_cluster
