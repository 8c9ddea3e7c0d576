"""The bank's webhook: how it signs, and the command that plays the bank.

The signature is an HMAC of the raw body, keyed by this installation's SECRET_KEY. There is no clock in it, so that a printed
command still works tomorrow; a repeated event is harmless, because an order is paid once.
"""

import json
import shlex

from django.http import HttpRequest
from django.utils.crypto import constant_time_compare, salted_hmac

HEADER = "X-Bank-Signature"


def sign(body: bytes) -> str:
    """The signature of a body, in hexadecimal."""
    return salted_hmac("demo.payments", body, algorithm="sha256").hexdigest()


def is_signed(request: HttpRequest) -> bool:
    """Whether the bank sent this."""
    given = request.headers.get(HEADER, "")
    return given.isascii() and constant_time_compare(given, sign(request.body))


def curl_line(base_url: str, order_id: int) -> str:
    """A command that pays an order, for any POSIX shell."""
    body = json.dumps({"order": str(order_id)}, separators=(",", ":"))
    words = ["curl", "-i", "-d", body, "-H", "Content-Type: application/json", "-H", f"{HEADER}: {sign(body.encode())}"]
    return shlex.join([*words, f"{base_url}/hooks/payments"])
