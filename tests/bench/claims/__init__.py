"""How well the linker tells what takes the place of what, on labelled pairs of short notes."""
