"""How many random cases a test has: all of them with make test-full, a fifth in the quick run."""
import os


def examples(count):
    return count if os.environ.get("WEIR_FULL") else max(10, count // 5)
