//! What was meant by an unknown section, key or word.

use super::problem::{Location, Problem};
use super::reference::{Section, section as known_section, sections};

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
    let names = |section: &'static Section| {
        let fields = section.fields.iter();
        fields.map(move |field| (section.name.as_str(), field.name.as_str()))
    };
    let own = || known_section(section).into_iter().flat_map(names);
    let all = || sections().iter().flat_map(names);
    let near = closest_by(key, own(), |(_, name)| name);
    let elsewhere = all().filter(|(_, name)| *name == key);
    let elsewhere: Vec<String> = elsewhere.map(|(other, _)| whereabouts(other)).collect();

    let message = format!("unknown key `{key}` {}", whereabouts(section));
    let mut problem = Problem::new(place, message);
    if let Some((_, name)) = near {
        problem = problem.help(format!("did you mean `{name}`?"));
    }
    if !elsewhere.is_empty() {
        problem = problem.help(format!("`{key}` belongs {}", elsewhere.join(" or ")));
    } else if near.is_none() {
        problem = problem.help(match closest_by(key, all(), |(_, name)| name) {
            Some((other, name)) if !other.is_empty() => {
                // Several sections may have the key; `[train]` is what most people mean.
                let mut others: Vec<&str> = all()
                    .filter(|(_, known)| *known == name)
                    .map(|(other, _)| other)
                    .collect();
                others.sort_by_key(|other| *other != "train");
                let others: Vec<String> = others.iter().map(|one| format!("`[{one}]`")).collect();
                format!("did you mean `{name}` in {}?", others.join(" or "))
            }
            _ => {
                let list: Vec<String> = own().map(|(_, name)| format!("`{name}`")).collect();
                format!("the keys here are {}", list.join(", "))
            }
        });
    }
    problem
}

/// The candidate that differs from `word` only by a typing error, if there is one.
pub(super) fn closest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    closest_by(word, candidates, |candidate| candidate)
}

fn closest_by<'a, T: Copy>(
    word: &str,
    candidates: impl Iterator<Item = T>,
    name: impl Fn(T) -> &'a str,
) -> Option<T> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, name(candidate)), candidate))
        .filter(|(similarity, _)| *similarity > 0.8)
        // The first of equally good ones: `deit_tiny` means the 224 px model, which is listed before the 384 px one.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}
