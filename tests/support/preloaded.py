"""What memory imports and loads when it opens its store, for the process that the tests fork.

lancedb is made to be forked: in the child it starts its threads anew, and warns of work that a fork cuts off.
The process that is forked does none, and a session of onnxruntime with one thread has no others. It comes
after all other imports: what exists then is left out of the search for garbage in each child.
"""

import gc
import warnings

from services.memory.storage.tables import import_lancedb
from tests.support.once import load_for_forks

warnings.filterwarnings("ignore", "lancedb fork support is experimental", RuntimeWarning)
import_lancedb()
load_for_forks()
gc.collect()
gc.freeze()
