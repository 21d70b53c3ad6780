"""How cortex works out what nobody spelled out: perceive, recall, plan, act, evaluate, put together, keep."""
