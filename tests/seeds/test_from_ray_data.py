"""The examples of docs/from-ray-data.md, in a process of their own: they make `import ray` give weir."""
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/from-ray-data.md"


def test_examples(run):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 2
    run(f"""
    import doctest
    test = doctest.DocTestParser().get_doctest({chr(10).join(blocks)!r}, {{}}, "page", "page", 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.tries > 4 and runner.failures == 0
    """)

