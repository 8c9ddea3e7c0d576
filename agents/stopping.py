"""Whether this process is about to stop. A running turn looks at it at each boundary and hands itself back."""

import threading

flag = threading.Event()
