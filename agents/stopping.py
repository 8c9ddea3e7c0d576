"""Whether this process is stopping. A turn looks at its next boundary, and hands itself back."""

import threading

flag = threading.Event()
