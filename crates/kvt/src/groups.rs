//! The help page of the program: its verbs in groups, in the order in which a newcomer needs them. clap lists all of them in one.

use clap::Command;
use clap::builder::{StyledStr, Styles};

use kvt_train::plot::wrapped;

/// The groups with their verbs. A test compares them with the verbs that there are.
pub(super) const GROUPS: [(&str, &[&str]); 5] = [
    ("Start", &["demo", "finetune", "predict"]),
    ("Train", &["data", "config", "train", "reproduce"]),
    ("Judge", &["report", "compare", "eval", "probe"]),
    (
        "Look inside",
        &["attention-map", "attribution-map", "analyze"],
    ),
    (
        "Tools",
        &[
            "models",
            "weights",
            "export",
            "devices",
            "bench",
            "logits",
            "completions",
            "man",
        ],
    ),
];

/// Columns of a terminal in which the page fits.
const WIDTH: usize = 80;

/// The template of the page, with the groups of the verbs of `program`.
pub(super) fn template(program: &Command) -> StyledStr {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let names = program.get_subcommands().map(|verb| verb.get_name().len());
    // Two spaces to the left of a name, and two to its right.
    let indent = names.max().unwrap_or(0) + 4;
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, verbs) in GROUPS {
        text += &format!("\n{header}{title}:{header:#}\n");
        for verb in verbs
            .iter()
            .filter_map(|name| program.find_subcommand(name))
        {
            let name = verb.get_name();
            let about = verb.get_about().map(ToString::to_string);
            let lines = wrapped(&about.unwrap_or_default(), WIDTH - indent);
            text += &format!(
                "  {literal}{name}{literal:#}{:gap$}{}\n",
                "",
                lines.join(&*format!("\n{:indent$}", "")),
                gap = indent - 2 - name.len(),
            );
        }
    }
    text += &format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text.into()
}
