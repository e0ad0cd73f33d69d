"""What goes wrong, as `application/problem+json`: the sentences of the command line with a status of HTTP."""

from typing import Any

from starlette.responses import JSONResponse

from ..errors import IcdcError, InfeasibleError, InputError, MissingExtraError, UsageError


class Refusal(Exception):
    """A request that is not served; the sentence is for whoever sent it.

    status : of HTTP.
    exit_code : what the command line would exit with, where it knows the case.
    headers : to send along.
    """

    def __init__(
        self, status: int, sentence: str, *, exit_code: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.exit_code, self.headers = status, sentence, exit_code, headers or {}

    def as_dict(self) -> dict[str, Any]:
        """Return the document that is sent."""
        about = {"type": "about:blank", "title": TITLES.get(self.status, "Error"), "status": self.status}
        return about | {"detail": self.sentence, "exit_code": self.exit_code}

    def response(self) -> JSONResponse:
        """Return the answer to the request."""
        return JSONResponse(self.as_dict(), self.status, self.headers, "application/problem+json")


TITLES = {
    400: "Not understood",
    401: "Token needed",
    403: "Not allowed",
    404: "Not found",
    405: "Not a method of this address",
    408: "Too slow",
    409: "Not now",
    413: "Too large",
    415: "Unknown kind of content",
    422: "Bad input",
    429: "Too busy",
    500: "Internal error",
    501: "Not installed",
    503: "Stopping",
    507: "No room",
}

_STATUS: tuple[tuple[type[IcdcError], int], ...] = (
    (MissingExtraError, 501), (InputError, 422), (InfeasibleError, 422), (UsageError, 400),
)  # fmt: skip


def refusal_of(error: IcdcError) -> Refusal:
    """Return an error of the package as the refusal of a request."""
    status = next((status for cls, status in _STATUS if isinstance(error, cls)), 500)
    return Refusal(status, str(error), exit_code=error.exit_code)
