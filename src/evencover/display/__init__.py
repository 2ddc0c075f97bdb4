"""How results are shown: HTML, numbers as text, figures."""
