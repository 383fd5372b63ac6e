//! HTML that foreign text cannot break: tags and attribute names are string constants of the program (`&'static str`), and
//! everything else is escaped.

/// Names of attributes with their values.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// Markup that is being written.
#[derive(Default)]
pub(super) struct Markup(String);

impl Markup {
    /// A text of the program, unescaped.
    pub(super) fn raw(&mut self, text: &'static str) {
        self.0 += text;
    }

    /// A text, escaped.
    pub(super) fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.0 += "&amp;",
                '<' => self.0 += "&lt;",
                '>' => self.0 += "&gt;",
                '"' => self.0 += "&quot;",
                '\'' => self.0 += "&#39;",
                // Control characters are not text, and HTML forbids most of them.
                c if c.is_control() && !matches!(c, '\n' | '\t') => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
    }

    /// An element without content, such as an image.
    pub(super) fn void(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.start(tag, attributes);
        self.0 += "/>";
    }

    /// An image in the page, with words in its place and others under the pointer.
    pub(super) fn image(&mut self, class: &str, uri: &str, words: &str, title: &str) {
        let attributes = [
            ("class", class),
            ("src", uri),
            ("alt", words),
            ("title", title),
        ];
        self.void("img", &attributes);
    }

    /// An element with what `inner` writes, whose result is returned.
    pub(super) fn within<R>(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        inner: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.start(tag, attributes);
        self.0.push('>');
        let result = inner(self);
        self.0 += "</";
        self.0 += tag;
        self.0.push('>');
        if ends_line(tag) {
            self.0.push('\n');
        }
        result
    }

    /// An element with a text.
    pub(super) fn element(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.within(tag, attributes, |page| page.text(text));
    }

    /// An element with a sentence, in which back-quotes mark code as in a message of the program.
    pub(super) fn sentence(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.within(tag, attributes, |page| {
            let mut rest = text;
            while let Some((before, (code, after))) = rest
                .split_once('`')
                .and_then(|(before, after)| Some((before, after.split_once('`')?)))
            {
                page.text(before);
                page.element("code", &[], code);
                rest = after;
            }
            page.text(rest);
        });
    }

    /// A remark in a paragraph of its own, as a [`sentence`](Self::sentence).
    pub(super) fn note(&mut self, text: &str) {
        self.sentence("p", &[("class", "note")], text);
    }

    /// A table that scrolls on its own if the page is narrow: its first row, unless that is empty, and what `rows` writes.
    pub(super) fn table<'a>(
        &mut self,
        class: &'static str,
        header: impl IntoIterator<Item = &'a str>,
        rows: impl FnOnce(&mut Self),
    ) {
        let mut header = header.into_iter().peekable();
        self.within("div", &[("class", "wide")], |page| {
            page.within("table", &[("class", class)], |page| {
                if header.peek().is_some() {
                    page.within("thead", &[], |page| {
                        page.within("tr", &[], |page| {
                            header.for_each(|cell| page.element("th", &[("scope", "col")], cell));
                        });
                    });
                }
                page.within("tbody", &[], rows);
            });
        });
    }

    /// A table of numbers; each row is a heading and its cells.
    pub(super) fn numbers<'a>(
        &mut self,
        header: impl IntoIterator<Item = &'a str>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) {
        self.table("numbers", header, |page| {
            for row in rows {
                page.within("tr", &[], |page| {
                    if let Some((heading, cells)) = row.split_first() {
                        page.element("th", &[("scope", "row")], heading);
                        cells.iter().for_each(|cell| page.element("td", &[], cell));
                    }
                });
            }
        });
    }

    /// A part that is folded until the reader opens it.
    pub(super) fn folded(&mut self, title: &str, inner: impl FnOnce(&mut Self)) {
        self.within("details", &[], |page| {
            page.element("summary", &[], title);
            inner(page);
        });
    }

    /// Appends other markup.
    pub(super) fn append(&mut self, other: &Self) {
        self.0 += &other.0;
    }

    /// The markup.
    pub(super) fn finish(self) -> String {
        self.0
    }

    fn start(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0 += tag;
        for (name, value) in attributes {
            self.0.push(' ');
            self.0 += name;
            self.0 += "=\"";
            self.text(value);
            self.0.push('"');
        }
    }
}

/// Large elements end their line, so that a diff of two reports is readable.
fn ends_line(tag: &str) -> bool {
    [
        "section", "tr", "figure", "details", "table", "g", "svg", "p", "li", "h1", "h2", "h3",
        "div", "summary", "head", "header", "nav", "ul", "main",
    ]
    .contains(&tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_quotes_become_code() {
        let made = |text: &str| {
            let mut page = Markup::default();
            page.sentence("b", &[], text);
            page.finish()
        };
        assert_eq!(
            made("of `a<b` and `c`."),
            "<b>of <code>a&lt;b</code> and <code>c</code>.</b>"
        );
        // One alone is a letter like others.
        assert_eq!(made("`a` or `b"), "<b><code>a</code> or `b</b>");
    }

    #[test]
    fn every_text_is_escaped() {
        let mut page = Markup::default();
        page.within("a", &[("title", "\"><b onclick='x'>&")], |page| {
            page.text("<script>alert(1)</script>\u{0}\u{1b}[2J\n");
        });
        page.void("br", &[]);
        assert_eq!(
            page.finish(),
            "<a title=\"&quot;&gt;&lt;b onclick=&#39;x&#39;&gt;&amp;\">\
             &lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}\u{fffd}[2J\n</a><br/>"
        );
    }
}
