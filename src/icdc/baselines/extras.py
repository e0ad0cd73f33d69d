"""Optional packages: looked for when a solver is made, imported when it works, named when missing."""

import importlib.util

from ..errors import MissingExtraError


def require(package: str, extra: str, solver: str) -> None:
    """Raise MissingExtraError, with the pip line that helps, unless `package` can be imported."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(
            f"the solver '{solver}' needs the package '{package}'; add it with: pip install 'icdc[{extra}]'"
        )
