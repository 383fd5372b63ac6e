//! How runs were trained: differences between their configurations, each full configuration, and the machines.

use std::collections::BTreeMap;

use super::super::ReportError;
use super::markup::Markup;
use super::record::Record;
use kvt_train::config::diff;
use kvt_train::run::Environment;

/// A key in which runs differ.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Differing {
    pub(super) key: String,
    /// Its value in each run, as TOML; `None` where it is not set.
    pub(super) values: Vec<Option<String>>,
    /// Whether the key only affects locations, speed or what is logged.
    pub(super) is_harmless: bool,
}

/// The keys in which some run differs from the first: keys that affect results first, each group in alphabetical order.
///
/// # Errors
/// If a value of a plan cannot be written as TOML.
pub(super) fn differing(records: &[Record]) -> Result<Vec<Differing>, ReportError> {
    let Some((first, others)) = records.split_first() else {
        return Ok(Vec::new());
    };
    let mut keys: BTreeMap<String, Differing> = BTreeMap::new();
    for (number, other) in (1..).zip(others) {
        let found = diff(&first.plan, &other.plan).map_err(Box::new)?;
        for difference in found {
            let differing = keys.entry(difference.key.clone()).or_insert(Differing {
                key: difference.key,
                // Until a run turns out to differ, it has the value of the first run.
                values: vec![difference.old; records.len()],
                is_harmless: difference.is_harmless,
            });
            if let Some(value) = differing.values.get_mut(number) {
                *value = difference.new;
            }
        }
    }
    let mut found: Vec<Differing> = keys.into_values().collect();
    // Stable: the alphabetical order stays within each group.
    found.sort_by_key(|differing| differing.is_harmless);
    Ok(found)
}

/// The differences as a table.
pub(super) fn differences(page: &mut Markup, records: &[Record], found: &[Differing]) {
    if found.is_empty() {
        page.element("p", &[], "The configurations are the same, key by key.");
        return;
    }
    let names = records.iter().map(|record| record.name.as_str());
    let header = std::iter::once("key").chain(names);
    page.table("keys-of-runs", header, |page| {
        for differing in found {
            let class = if differing.is_harmless {
                "harmless"
            } else {
                ""
            };
            page.within("tr", &[("class", class)], |page| {
                page.within("th", &[("scope", "row")], |page| {
                    page.within("code", &[], |page| {
                        for part in differing.key.split_inclusive('.') {
                            page.text(part);
                            // A narrow page may break the line here.
                            page.void("wbr", &[]);
                        }
                    });
                });
                for value in &differing.values {
                    page.within("td", &[], |page| match value {
                        Some(value) => page.element("code", &[], value),
                        None => page.text("not set"),
                    });
                }
            });
        }
    });
    if found.iter().any(|differing| differing.is_harmless) {
        page.note("Grey keys do not change the result.");
    }
}

/// The configurations, folded.
pub(super) fn configurations(page: &mut Markup, records: &[Record]) {
    for record in records {
        page.folded(&format!("config.toml of {}", record.name), |page| {
            page.element("pre", &[], &record.config);
        });
    }
}

/// The machines and programs of the runs.
pub(super) fn environments(page: &mut Markup, records: &[Record]) {
    let header = match records {
        // A single run needs no name.
        [_] => Vec::new(),
        several => {
            let names = several.iter().map(|record| record.name.as_str());
            std::iter::once("").chain(names).collect()
        }
    };
    page.table("keys-of-runs", header, |page| {
        for (name, of) in FIELDS {
            let values = records.iter().map(|record| {
                let value = record.environment.as_ref().and_then(of);
                value.unwrap_or_else(|| "unknown".to_owned())
            });
            one_field(page, name, &values.collect::<Vec<_>>());
        }
    });
}

/// A row, with one cell for all runs if they agree.
fn one_field(page: &mut Markup, name: &str, values: &[String]) {
    page.within("tr", &[], |page| {
        page.element("th", &[("scope", "row")], name);
        match values.split_first() {
            Some((first, others)) if others.iter().all(|other| other == first) => {
                let columns = values.len().to_string();
                page.element("td", &[("colspan", &*columns)], first);
            }
            _ => {
                for value in values {
                    page.element("td", &[], value);
                }
            }
        }
    });
}

/// A time such as `2026-11-25T04:44:02.976Z` without the fraction of the second.
fn whole_seconds(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, fraction)) if fraction.ends_with('Z') => format!("{seconds}Z"),
        _ => time.to_owned(),
    }
}

/// A field of an environment: its name and its value.
type Field = (&'static str, fn(&Environment) -> Option<String>);

/// All of `environment.json` except the name of the machine, which means nothing to others.
const FIELDS: [Field; 12] = [
    ("kvt", |own| Some(own.kvt.clone())),
    ("Burn", |own| Some(own.burn.clone())),
    ("device", |own| Some(own.device.clone())),
    ("started", |own| Some(whole_seconds(&own.started))),
    ("command", |own| Some(own.command.join(" "))),
    ("git commit", |own| {
        let changes = match own.git_dirty {
            Some(true) => ", with changes",
            _ => "",
        };
        Some(format!("{}{changes}", own.git_commit.as_ref()?))
    }),
    ("system", |own| Some(own.os.clone())),
    ("processor", |own| own.cpu.clone()),
    ("architecture", |own| Some(own.arch.clone())),
    ("cores", |own| Some(own.cores?.to_string())),
    ("memory", |own| {
        Some(format!(
            "{:.1} GiB",
            own.memory as f64 / (1u64 << 30) as f64
        ))
    }),
    ("compiled for", |own| Some(own.target_features.join(", "))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_has_whole_seconds() {
        for time in ["2026-11-25T04:44:02.976123456Z", "2026-11-25T04:44:02Z"] {
            assert_eq!(whole_seconds(time), "2026-11-25T04:44:02Z");
        }
        assert_eq!(whole_seconds("some.time"), "some.time");
    }
}
