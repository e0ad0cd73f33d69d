"""Cards of models: how they are made, and what is measured of the models that ship."""
