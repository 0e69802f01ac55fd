"""The words between the node and its peers: a pickled tuple whose first item is one of these.

    peer → node   GET WAIT NEXT RESERVE CREDIT CALL: with a number, answered by REPLY, unless FORGET names the number first
                  PUT SUBMIT HOLD DROP: not answered
    worker → node DONE YIELD                                     node → worker   HELLO TASK CANCEL EXIT
Descriptors come in the order of the payloads that have a size.
"""
from __future__ import annotations

GET, WAIT, NEXT, RESERVE, CALL, PUT, SUBMIT, HOLD, DROP, CREDIT, FORGET = range(1, 12)
DONE, YIELD = 20, 21
REPLY, HELLO, TASK, CANCEL, EXIT = range(30, 35)

# How a task ended, in DONE.
OK, FAILED, RETRIABLE, CANCELLED, LEAVING = range(5)

