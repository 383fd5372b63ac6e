//! Untrusted text for readers: names of classes, files, runs and tensors on a terminal, in Markdown and in a picture.
//!
//! A control character would be a command to the terminal and is not allowed in XML; a direction mark makes a text look like
//! another one; a line break makes a name look like a message of its own.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters of Markdown that begin markup within a line.
const MARKUP: [char; 8] = ['\\', '`', '*', '[', ']', '<', '&', '|'];

/// A text of several lines with everything escaped that acts on the text around it, except line ends and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts(c) && !matches!(c, '\n' | '\t'))
}

/// A text for a single line, such as a cell of a table: its line ends and tabs are escaped, too.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// A name in a line of Markdown that shows it letter by letter.
pub fn markdown(name: &str) -> String {
    let mut text = String::new();
    for c in one_line(name).chars() {
        if MARKUP.contains(&c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// A text in a line of Markdown, as code.
pub fn code(text: &str) -> String {
    let text = one_line(text);
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0) + 1);
    match fence.len() {
        1 => format!("`{text}`"),
        // The spaces keep a backquote of the text apart from those of the fence, and are not shown.
        _ => format!("{fence} {text} {fence}"),
    }
}

/// Control characters, marks of the direction of writing, separators of lines, and what XML forbids.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Escapes characters as JSON and TOML do in strings, so that text they have escaped already does not change, and text they pass
/// through keeps its meaning. All characters that act on text have four digits.
fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            // Writing to a string cannot fail.
            let _ = write!(clean, "\\u{:04x}", u32::from(c));
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_acts_on_other_text_is_escaped() {
        let red = "a\u{1b}[31mred\u{9b}2J\u{7}\r\n\tb";
        assert_eq!(lines(red), "a\\u001b[31mred\\u009b2J\\u0007\\u000d\n\tb");
        assert_eq!(one_line("a\nb\tc\0"), "a\\u000ab\\u0009c\\u0000");
        // `cat` with an override of the direction of writing reads `tac`; a line separator is a line break to some terminals.
        assert_eq!(lines("\u{202e}cat\u{202c}"), "\\u202ecat\\u202c");
        assert_eq!(one_line("a\u{2028}b\u{2067}c"), "a\\u2028b\\u2067c");
        for plain in ["", "weights.0 \u{fc} \u{65e5} \u{5d0}\u{627}", "a\u{200d}b"] {
            assert!(matches!(one_line(plain), Cow::Borrowed(same) if same == plain));
        }
        assert!(matches!(lines("a\n\tb"), Cow::Borrowed("a\n\tb")));
    }

    /// JSON escapes most control characters itself; for the rest, the output is another spelling of the same text.
    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({ "a\u{1b}\u{7f}\u{202e}": "\u{9b}31m\n\u{2066}" });
        for text in [value.to_string(), format!("{value:#}")] {
            let printed = lines(&text);
            assert!(!printed.contains(|c: char| acts(c) && c != '\n'));
            let read: serde_json::Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(read, value);
        }
    }

    #[test]
    fn markdown_shows_a_name_as_it_is() {
        assert_eq!(markdown("knn_k8 1.5"), "knn_k8 1.5");
        assert_eq!(
            markdown("a|b <img src=x> `c` [d](e) *f* &lt; \\\u{1b}"),
            "a\\|b \\<img src=x> \\`c\\` \\[d\\](e) \\*f\\* \\&lt; \\\\\\\\u001b"
        );
        assert_eq!(markdown("a\n# b"), "a\\\\u000a# b");
        assert_eq!(code("a *b*"), "`a *b*`");
        assert_eq!(code("a `b` ``c``\u{7}"), "``` a `b` ``c``\\u0007 ```");
    }
}
