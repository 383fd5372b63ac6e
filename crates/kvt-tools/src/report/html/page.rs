//! The frame of the page: its head, which forbids all outside content, its heading and its parts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::Report;
use super::markup::Markup;
use crate::groups::unique;

/// The style and the script of every report.
pub(super) const STYLE: &str = include_str!("style.css");
pub(super) const SCRIPT: &str = include_str!("script.js");

/// A part of the page.
pub(super) struct Part {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) markup: Markup,
}

/// The page with its parts.
pub(super) fn write(report: &Report, parts: &[Part]) -> String {
    let mut page = Markup::default();
    page.raw("<!DOCTYPE html>\n");
    page.within("html", &[("lang", "en")], |page| {
        page.within("head", &[], |page| head(page, report));
        page.within("body", &[], |page| {
            page.within("header", &[], |page| header(page, report));
            page.within("nav", &[], |page| {
                for part in parts {
                    let target = format!("#{}", part.id);
                    page.element("a", &[("href", &*target)], part.title);
                }
            });
            page.within("main", &[], |page| {
                for part in parts {
                    page.within("section", &[("id", part.id)], |page| {
                        page.element("h2", &[], part.title);
                        page.append(&part.markup);
                    });
                }
            });
            page.within("script", &[], |page| page.raw(SCRIPT));
        });
    });
    page.finish() + "\n"
}

fn head(page: &mut Markup, report: &Report) {
    page.void("meta", &[("charset", "utf-8")]);
    let policy = format!(
        "default-src 'none'; img-src data:; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    let attributes = [
        ("http-equiv", "Content-Security-Policy"),
        ("content", &*policy),
    ];
    page.void("meta", &attributes);
    let view = "width=device-width, initial-scale=1";
    page.void("meta", &[("name", "viewport"), ("content", view)]);
    page.void(
        "meta",
        &[("name", "color-scheme"), ("content", "light dark")],
    );
    // Without an icon, a browser asks the server for one.
    page.void("link", &[("rel", "icon"), ("href", "data:,")]);
    page.element("title", &[], &report.title);
    page.within("style", &[], |page| page.raw(STYLE));
}

fn header(page: &mut Markup, report: &Report) {
    page.element("h1", &[], &report.title);
    page.note(&subtitle(report));
    let warnings = report.warnings();
    if warnings.is_empty() {
        return;
    }
    page.within("ul", &[("class", "warnings")], |page| {
        for warning in &warnings {
            page.sentence("li", &[], warning);
        }
    });
}

/// The number of runs and their models.
fn subtitle(report: &Report) -> String {
    let count = match report.records.len() {
        1 => String::new(),
        count => format!("{count} runs of "),
    };
    let models = unique(report.records.iter().map(|record| {
        let model = record.model.as_ref();
        model.map_or(record.plan.model.name.as_str(), |model| &model.name)
    }));
    let version = env!("CARGO_PKG_VERSION");
    format!("{count}{}; made by kvt {version}", models.join(", "))
}

/// The hash by which a content security policy identifies a style or a script.
pub(super) fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `abc`, from FIPS 180-2, in base64.
    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(
            hash("abc"),
            "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
        );
    }

    /// Neither contains anything that ends its element or names an address.
    #[test]
    fn style_and_script_stay_where_they_are() {
        for text in [STYLE, SCRIPT] {
            for part in ["</", "<!--", "http:", "https:", "url(", "@import"] {
                assert!(!text.contains(part), "{part}");
            }
        }
    }
}
