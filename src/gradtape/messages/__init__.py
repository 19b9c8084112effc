"""What the library tells while it works: how far long work is, and records for `logging`.

Other packages import `Progress`, `chosen`, `style_of` and `Log` from here; users call
`set_progress`.
"""

from gradtape.messages.log import Log
from gradtape.messages.progress import Progress
from gradtape.messages.progress_choice import Choice, chosen, set_progress, style_of

__all__ = ["Choice", "Log", "Progress", "chosen", "set_progress", "style_of"]
