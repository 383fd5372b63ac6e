//! What was meant by an unknown section, key or word.

use kvt_models::similar;

use super::problem::{Location, Problem};
use super::reference::{Field, section as known_section, sections};

pub(super) fn unknown_section(path: &str, place: Location) -> Problem {
    let problem = Problem::new(place, format!("unknown section `[{path}]`"));
    let names = || sections().iter().map(|section| section.name.as_str());
    let last = path.rsplit('.').next().unwrap_or(path);
    let moved = names().find(|name| name.rsplit('.').next() == Some(last));
    match moved.or_else(|| closest(path, names())) {
        Some(name) => problem.help(format!("did you mean `[{name}]`?")),
        None => {
            let names = names().filter(|name| !name.is_empty());
            let list: Vec<String> = names.map(|name| format!("`[{name}]`")).collect();
            problem.help(format!("the sections are {}", list.join(", ")))
        }
    }
}

pub(super) fn unknown_key(section: &str, key: &str, place: Location) -> Problem {
    let whereabouts = |section: &str| match section {
        "" => "at the top level".to_owned(),
        section => format!("in `[{section}]`"),
    };
    let near = closest(key, keys_of(section));
    let same = all_keys().filter(|known| known.name == key);
    let elsewhere: Vec<String> = same.map(|known| whereabouts(&known.section)).collect();

    let message = format!("unknown key `{key}` {}", whereabouts(section));
    let mut problem = Problem::new(place, message);
    if let Some(known) = near {
        problem = problem.help(format!("did you mean `{}`?", known.name));
    }
    if !elsewhere.is_empty() {
        problem = problem.help(format!("`{key}` belongs {}", elsewhere.join(" or ")));
    } else if near.is_none() {
        problem = problem.help(help_with_another_key(section, key));
    }
    problem
}

/// A similar key of other sections, or otherwise the keys of this one.
fn help_with_another_key(section: &str, key: &str) -> String {
    let similar = closest(key, all_keys());
    let Some(similar) = similar.filter(|known| !known.section.is_empty()) else {
        let quoted = keys_of(section).map(|known| format!("`{}`", known.name));
        let own: Vec<String> = quoted.collect();
        return format!("the keys here are {}", own.join(", "));
    };
    // Several sections may have the key; `[train]` is what most people mean.
    let mut same: Vec<&Field> = all_keys().collect();
    same.retain(|known| known.name == similar.name);
    same.sort_by_key(|known| known.section != "train");
    let same: Vec<String> = same.iter().map(|k| format!("`[{}]`", k.section)).collect();
    format!("did you mean `{}` in {}?", similar.name, same.join(" or "))
}

impl AsRef<str> for Field {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

fn all_keys() -> impl Iterator<Item = &'static Field> {
    sections().iter().flat_map(|section| &section.fields)
}

fn keys_of(section: &str) -> impl Iterator<Item = &'static Field> {
    let section = known_section(section);
    section.into_iter().flat_map(|section| &section.fields)
}

/// The candidate that differs from `word` only by a typing error, if there is one. Of equally similar ones it is the first:
/// `deit_tiny` means the 224 px model, which is listed before the 384 px one.
pub(super) fn closest<T: AsRef<str>>(word: &str, candidates: impl Iterator<Item = T>) -> Option<T> {
    similar(word, candidates).into_iter().next()
}
