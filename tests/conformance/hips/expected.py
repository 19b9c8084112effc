"""The tests of HIPS autograd that fail here, and why: nothing else may fail.

Documented differences are in docs/derivatives.md, under "Beside HIPS autograd".
"""

EXPECTED: dict[str, list[str]] = {
    "private API: graphs of autograd's nodes": [
        "test_misc.py::test_const_graph",
        "test_misc.py::test_const_graph_args",
    ],
    "private API: names that autograd.numpy adds to NumPy, np.where that returns Python's types": [
        "test_linalg.py::test_pinv",
        "test_numpy.py::test_diagonal",
        "test_numpy.py::test_make_diagonal",
        "test_wrappers.py::test_custom_where",
        "test_wrappers.py::test_custom_where_dtypes[float-False-1-2.0]",
        "test_wrappers.py::test_custom_where_dtypes[float-True-3.0-4.0]",
        "test_wrappers.py::test_custom_where_dtypes[int-True-1-2]",
        "test_wrappers.py::test_custom_where_dtypes[list-True-x3-y3]",
    ],
    "documented: works here and raises in autograd (assignment, rfftn of odd sizes)": [
        "test_fft.py::test_rfftn_odd_not_implemented",
        "test_graphs.py::test_assignment_raises_error",
    ],
    "documented: tensors in lists, np.r_, np.c_, np.int64(x) raise a LostDerivativeError": [
        "test_linalg.py::test_norm_list_of_boxes",
        "test_numpy.py::test_c_",
        "test_numpy.py::test_c_mixed",
        "test_numpy.py::test_cast_to_int",
        "test_numpy.py::test_mean_list_of_boxes",
        "test_numpy.py::test_r_basic",
        "test_numpy.py::test_r_double",
        "test_numpy.py::test_r_mixed",
        "test_numpy.py::test_r_node_and_const",
        "test_numpy.py::test_r_slicing",
        "test_numpy.py::test_simple_append_list_2D",
        "test_numpy.py::test_std_list_of_boxes",
        "test_numpy.py::test_var_list_of_boxes",
    ],
    "documented: eigenvectors of eigh(a, 'U') have another sign than NumPy's": [
        "test_linalg.py::test_eigvalh_upper",
        "test_linalg.py::test_eigvalh_upper_broadcasting",
    ],
    "documented: np.linalg.eig is not recorded": [
        "test_linalg.py::test_eig_batched",
        "test_linalg.py::test_eig_complex",
        "test_linalg.py::test_eig_real",
    ],
    "documented: no order of complex numbers, no error function of them": [
        "test_scipy.py::test_erf",
        "test_scipy.py::test_erfc",
        "test_systematic.py::test_max",
        "test_systematic.py::test_min",
    ],
    "documented: no float16 and no longdouble": ["test_wrappers.py::test_dtypes"],
    "documented: functions of SciPy that are not recorded": [
        "test_scipy.py::test_betainc",
        "test_scipy.py::test_gammainc",
        "test_scipy.py::test_gammaincc",
        "test_scipy.py::test_odeint",
        "test_scipy.py::test_solve_sylvester",
        "test_scipy.py::test_sqrtm",
    ],
}
