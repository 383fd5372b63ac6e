//! The keys of `[model.attention]` that belong to the chosen kind of attention.

use super::document::Checks;
use super::problem::Problem;
use super::reference::{Field, field, join, section};
use kvt_data::schema::kinds;

/// The kind that does not need to be chosen.
const DEFAULT: &str = "dense";

/// Reports the keys of a section that do not belong to its `kind`.
///
/// A later file or override that changes the kind disables the keys of the old kind that the new one lacks; a key that
/// both have keeps its value. Overrides for several documents can be for the kinds of others.
pub(super) fn keys(name: &str, checks: &mut Checks<'_>) {
    let fields = section(name).map_or(&[][..], |section| &section.fields);
    let choice = join(name, "kind");
    if checks.refuses(&choice) {
        return;
    }
    let chosen = checks.document.value(&choice).and_then(toml::Value::as_str);
    for field in fields {
        let (of_kinds, key) = (kinds(&field.schema), join(name, &field.name));
        let Some(place) = checks.set_place(&key).filter(|_| !of_kinds.is_empty()) else {
            continue;
        };
        let is_own = of_kinds.contains(&chosen.unwrap_or(DEFAULT));
        if is_own || checks.document.is_for_another(&key, &choice) {
            continue;
        }
        let problem = match chosen {
            None => {
                let message = format!("`{}` is set, but no attention kind is set", field.name);
                Problem::new(place, message).help(choose(&of_kinds, name))
            }
            Some(kind) => {
                let own = own_keys(kind, fields);
                let name = &field.name;
                let message = format!("`{name}` does not apply to `kind = \"{kind}\"`: {own}");
                let others = of_kinds.join(", ");
                Problem::new(place, message).help(format!(
                    "leave it out, or choose a kind that has it: {others}"
                ))
            }
        };
        checks.problems.push(problem);
    }
}

/// The kinds that have a key of `[model.attention]`; empty if the key is unknown or does not belong to kinds.
pub fn kinds_with(key: &str) -> Vec<&'static str> {
    field(&join("model.attention", key)).map_or_else(Vec::new, |field| kinds(&field.schema))
}

/// The kinds that have a key, and the default kind.
fn choose(of_kinds: &[&str], name: &str) -> String {
    let (first, others) = of_kinds.split_first().unwrap_or((&DEFAULT, &[]));
    let all = others.iter().chain([&DEFAULT]);
    let others: Vec<String> = all.map(|kind| format!("\"{kind}\"")).collect();
    format!(
        "add `kind = \"{first}\"` under `[{name}]`, or {}",
        others.join(", or ")
    )
}

fn own_keys(kind: &str, fields: &[Field]) -> String {
    let its_fields = fields
        .iter()
        .filter(|field| kinds(&field.schema).contains(&kind));
    let own: Vec<String> = its_fields
        .map(|field| format!("`{}`", field.name))
        .collect();
    match own.as_slice() {
        [] => "it has no keys".to_owned(),
        own => format!("its keys are {}", own.join(", ")),
    }
}
