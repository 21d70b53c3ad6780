"""The tools of the desk: each is one object in one module, with the sentences that ask for it."""
