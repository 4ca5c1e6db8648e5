"""What each op of the standard library is compared with: `draw_call(draw)` by name, in three files."""
import data_reference
import linear_reference
import network_reference

REFERENCES = {**linear_reference.REFERENCES, **network_reference.REFERENCES, **data_reference.REFERENCES}
