"""What memory imports when it opens its store, for the process that the tests fork.

lancedb is made to be forked: in the child it starts its threads anew, and warns of work that a fork cuts off.
The process that is forked does none.
"""

import warnings

from services.memory.storage.tables import import_lancedb

warnings.filterwarnings("ignore", "lancedb fork support is experimental", RuntimeWarning)
import_lancedb()
