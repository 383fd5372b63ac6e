//! `kvt attribution-map`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Error, bail};

use super::common::success_if;
use super::each_image::each_image;
use super::table::table;
use super::{output, trained};
use kvt_data::fs::write_text;
use kvt_papers::attribution::{NOTE, attribute, check, said};
use kvt_tools::probe::labelled;
use kvt_tools::trained::Trained;
use kvt_train::table::{cells, csv_lines};
use kvt_train::task::TaskKind;

/// `kvt attribution-map --run RUN IMAGE...`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt attribution-map --run runs/photos some.jpg\n  kvt attribution-map --run runs/photos --class cat --out maps some.jpg"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: trained::Args,
    /// Image files, folders, or patterns.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    /// The class that patches speak for, by its name, or by its number, from 0 on; by default the one that the model takes the
    /// image for, of several labels the most probable one.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// The folder of the pictures, one for each image (the image, and what speaks for the class laid over it, from dark to bright),
    /// and of `relevance.csv`.
    #[arg(
        long,
        alias = "output",
        value_name = "DIR",
        default_value = "runs/attribution"
    )]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let trained = Trained::load(&args.trained.origin()?, true, &mut output::warning)?;
    // Before images are looked for.
    check(&trained.model)?;
    let classes = &trained.classes;
    let class = match &args.class {
        Some(class) => Some(number(class, classes.as_deref())?),
        None => None,
    };
    let mut csv = "image,class,row,column,relevance\n".to_owned();
    let mut rows = Vec::new();
    let are_all = each_image(&args.images, &trained, &args.out, |shown| {
        let mut found = attribute(&trained.model, shown.input, class)
            .with_context(|| format!("`{}`", shown.path.display()))?;
        found.has_labels = trained.plan.task == TaskKind::MultiLabel;
        let columns = found.grid[1].max(1);
        let name = classes
            .as_ref()
            .and_then(|names| names.get(found.class))
            .cloned()
            .unwrap_or_else(|| found.class.to_string());
        let patches = found.patches.iter().enumerate();
        csv += &csv_lines(patches.map(|(place, relevance)| {
            let (row, column) = (place / columns, place % columns);
            cells([&shown.path.display(), &name, &row, &column, relevance])
        }));
        let drawn = said(
            &shown.seen,
            vec!["as the model sees it".to_owned()],
            &[(format!("for {name}"), &found)],
        );
        rows.push(vec![
            shown.file.display().to_string(),
            name,
            format!("{:.2} %", 100.0 * found.probability()),
            format!("{:.0} %", 100.0 * found.half()),
        ]);
        labelled(&[drawn], NOTE).map_err(Error::msg)
    })?;
    if rows.is_empty() {
        bail!("no image could be read: nothing is drawn");
    }
    write_text(&args.out.join("relevance.csv"), &csv)?;
    let header = "picture,class,probability,patches with half of the relevance";
    output::print(&table(header.split(','), rows))?;
    Ok(success_if(are_all))
}

/// The number of a class by its name, where names are known, or by its number.
fn number(class: &str, names: Option<&[String]>) -> anyhow::Result<usize> {
    let named = names.and_then(|names| names.iter().position(|name| name == class));
    if let Some(number) = named.or_else(|| class.parse().ok()) {
        return Ok(number);
    }
    match names {
        Some(_) => bail!(
            "there is no class `{class}`: the model's classes are those of `classes.txt` in its run"
        ),
        None => {
            bail!("`{class}` is not a number, and the names of the model's classes are not known")
        }
    }
}
