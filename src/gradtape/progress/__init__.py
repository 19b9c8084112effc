"""How far long work is: a bar of rich, a line of text, a call of the user's function, or nothing.

Other rooms import `Progress` and `chosen` from here; users call `set_progress`.
"""

from gradtape.progress.bars import Progress
from gradtape.progress.switch import Choice, chosen, set_progress, style_of

__all__ = ["Choice", "Progress", "chosen", "set_progress", "style_of"]
