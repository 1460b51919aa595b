"""Self-contained web pages: reports of studies and of the demonstration.

A page is one file with its style sheet, script and data; a Content-Security-Policy forbids any request.
``parts`` describes the contents as plain data, ``render`` writes them as HTML, ``document`` fills
``page.html``.

>>> from dcfw.cli.page.document import page
>>> from dcfw.cli.page.parts import Section, Text
>>> html = page("A title", [Section("Results", [Text("1 < 2")])])
>>> "1 &lt; 2" in html, "default-src 'none'" in html
(True, True)
"""
