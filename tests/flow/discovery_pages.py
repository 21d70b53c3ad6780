"""What arXiv and feeds answer, and what they answer when something is wrong."""

ENTRY = """
  <entry>
    <id>http://arxiv.org/abs/{id}</id>
    <title>{title}</title>
    <updated>2023-08-02T00:41:18Z</updated>
    <link href="https://arxiv.org/abs/{id}" rel="alternate" type="text/html"/>
    <link href="https://arxiv.org/pdf/{id}" rel="related" type="application/pdf" title="pdf"/>
    <summary>  The dominant sequence transduction models are based on complex recurrent
or convolutional neural networks.
</summary>
    <category term="cs.CL" scheme="http://arxiv.org/schemas/atom"/>
    <category term="cs.LG" scheme="http://arxiv.org/schemas/atom"/>
    <published>2017-06-12T17:57:34Z</published>
    <arxiv:comment>15 pages, 5 figures</arxiv:comment>
    <arxiv:primary_category term="cs.CL"/>
    <author><name>Ashish Vaswani</name></author>
    <author><name>Noam Shazeer</name></author>
  </entry>"""

FEED = """<?xml version='1.0' encoding='UTF-8'?>
<feed xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/" xmlns:arxiv="http://arxiv.org/schemas/atom"
      xmlns="http://www.w3.org/2005/Atom">
  <id>https://arxiv.org/api/rkT2MzPIYtBXbrkyaNUf1VG6GNU</id>
  <title>arXiv Query: search_query=all:attention&amp;id_list=&amp;start=0&amp;max_results=2</title>
  <updated>2026-01-05T12:15:31Z</updated>
  <link href="https://arxiv.org/api/query?search_query=all:attention" type="application/atom+xml"/>
  <opensearch:itemsPerPage>2</opensearch:itemsPerPage>
  <opensearch:totalResults>{total}</opensearch:totalResults>
  <opensearch:startIndex>0</opensearch:startIndex>{entries}
</feed>"""

PAPERS = FEED.format(
    total=412_000,
    entries=ENTRY.format(id="1706.03762v7", title="Attention Is All\n  You Need")
    + ENTRY.format(id="cs/0112017v1", title="A Paper of the Old Numbering"),
)
NO_PAPERS = FEED.format(total=0, entries="")
REFUSAL = FEED.format(
    total=1,
    entries="""
  <entry>
    <id>http://arxiv.org/api/errors#max_results_must_be_an_integer</id>
    <title>Error</title>
    <summary>max_results must be an integer</summary>
    <updated>2026-01-05T00:00:00-05:00</updated>
    <author><name>arXiv api core</name></author>
  </entry>""",
)
RSS = """<?xml version="1.0"?>
<rss version="2.0"><channel><title>Model &amp; Machine</title><link>https://news.example/</link>
<item><title>A graph of everything remembered</title><link>https://news.example/graph?utm_source=rss</link>
  <pubDate>Tue, 06 Jan 2026 09:30:00 +0100</pubDate>
  <description>&lt;p&gt;Agents &lt;b&gt;remember&lt;/b&gt; more.&lt;/p&gt;</description></item>
<item><title>An older thing</title><link>https://news.example/old</link>
  <pubDate>Mon, 05 Jan 2026 08:00:00 GMT</pubDate></item>
<item><title>Not to be followed</title><link>javascript:alert(1)</link></item>
</channel></rss>"""
ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>Papers daily</title><id>urn:x</id>
<entry><title>A graph of everything remembered!</title><id>urn:1</id><link href="https://other.example/copy"/>
  <updated>2026-01-06T07:00:00Z</updated></entry>
<entry><title>Newest of all</title><id>urn:2</id><link href="/relative"/>
  <updated>2026-01-07T07:00:00Z</updated></entry></feed>"""
