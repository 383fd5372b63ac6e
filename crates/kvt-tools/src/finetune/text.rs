//! A proposed configuration as a readable file: the settings, each below the meaning of its key.

use toml::{Table, Value};

use kvt_train::config::{key_meaning, reading_order};

/// Maximum width of a comment.
const WIDTH: usize = 100;

/// The file: comments at the top, then the sections.
pub(super) fn commented(table: &Table, head: &[String]) -> String {
    let mut text = String::new();
    for line in head {
        text += &comment(line);
    }
    section("", table, &mut text);
    text
}

/// The same file with a setting of a section that is left to its reader: why one may want it, and the line to uncomment.
pub(super) fn with_choice(text: &str, section: &str, why: &str, line: &str) -> String {
    let head = format!("\n[{section}]\n");
    let choice = format!("{head}{}{}", comment(why), comment(line));
    text.replacen(&head, &choice, 1)
}

/// A section and its subsections: keys first, as TOML requires.
fn section(name: &str, table: &Table, text: &mut String) {
    let is_table = |value: &Value| matches!(value, Value::Table(_));
    let join = |key: &str| match name {
        "" => key.to_owned(),
        name => format!("{name}.{key}"),
    };
    let mut all: Vec<_> = table.iter().collect();
    all.sort_by_key(|(key, _)| reading_order(&join(key)));
    let (inner, keys): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, value)| is_table(value));
    if !keys.is_empty() {
        *text += "\n";
        if !name.is_empty() {
            *text += &format!("[{name}]\n");
        }
    }
    for (key, value) in keys {
        if let Some(meaning) = key_meaning(&join(key)) {
            *text += &comment(&meaning);
        }
        *text += &format!("{key} = {value}\n");
    }
    for (key, value) in inner {
        if let Value::Table(inner) = value {
            section(&join(key), inner, text);
        }
    }
}

/// Formats a text as comment lines.
///
/// TOML does not allow control characters in comments, and a path may contain some.
fn comment(words: &str) -> String {
    let words = words.replace(char::is_control, " ");
    let mut lines = Vec::new();
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.len() > 1 {
            lines.push(std::mem::replace(&mut line, String::from("#")));
        }
        line.push(' ');
        line += word;
    }
    lines.push(line);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_before_the_sections_within() {
        let table: Table = toml::toml! {
            seed = 3
            [model]
            name = "a"
            [model.attention]
            kind = "knn"
            [train]
            epochs = 5
        };
        let text = commented(&table, &["What it is.".to_owned()]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "",
                "seed = 3",
                "",
                "[model]",
                "name = \"a\"",
                "",
                "[model.attention]",
                "kind = \"knn\"",
                "",
                "[train]",
                "epochs = 5"
            ]
        );
        assert!(text.starts_with("# What it is.\n"), "{text}");
        let meaning = "# Times that training goes through the data.\nepochs = 5\n";
        assert!(text.ends_with(meaning), "{text}");
        assert_eq!(toml::from_str::<Table>(&text).ok(), Some(table));
    }

    #[test]
    fn a_choice_is_a_line_of_its_section() {
        let text = with_choice(
            "seed = 3\n\n[model]\nname = \"a\"\n",
            "model",
            "Why.",
            "b = 1",
        );
        let expected = "seed = 3\n\n[model]\n# Why.\n# b = 1\nname = \"a\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn comments_are_not_wide() {
        let text = comment(&"some words of a long sentence ".repeat(10));
        assert!(text.lines().count() > 2);
        for line in text.lines() {
            assert!(line.starts_with("# ") && line.len() <= WIDTH, "{line}");
        }
        assert_eq!(comment(""), "#\n");
        // TOML rejects them in comments.
        assert_eq!(comment("a\u{1b}b\u{7f} c"), "# a b c\n");
    }
}
