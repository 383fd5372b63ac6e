//! `kvt models`

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{ArgGroup, Subcommand};
use glob::Pattern;
use kvt_models::{ImgSize, Macs, ModelConfig, StageAttention, Summary, similar};
use serde_json::json;

use super::output;
use super::table::{grouped, human, table};
use kvt_data::text::quoted;
use kvt_train::config::{Document, dense_stages};
use kvt_train::fetch::Published;

/// `kvt models list` and `kvt models show NAME`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt models list 'deit*'\n  kvt models show deit_tiny_patch16_224 --set model.attention.kind=knn"
)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List all models with their size and cost, or those of some names.
    #[command(
        after_help = "Examples:\n  kvt models list\n  kvt models list swin\n  kvt models list '*_384'\n  kvt models list --weights deit"
    )]
    List {
        /// Only names that match, with `*` and `?` as in file names; a word without them may stand anywhere in a name.
        #[arg(value_name = "FILTER")]
        filter: Option<String>,
        /// The published weights of the models instead: the names that `--weights` takes.
        #[arg(long)]
        weights: bool,
    },
    /// Show one model, stage by stage.
    #[command(
        after_help = "Examples:\n  kvt models show swin_tiny_patch4_window7_224\n  kvt models show deit_tiny_patch16_224 --img-size 384\n  kvt models show --config configs/quickstart/knn.toml --json"
    )]
    #[command(group(ArgGroup::new("model or configuration").required(true).args(["name", "config"])))]
    Show {
        /// The model's name.
        // Within its group this means: unless `--config` is given.
        #[arg(required = true)]
        name: Option<String>,
        /// A configuration file; its `[model]` is shown.
        #[arg(long, value_name = "CONFIG")]
        config: Option<PathBuf>,
        /// Side of the images in pixels, or height x width as in `224x320` for a ViT.
        #[arg(long, value_name = "PIXELS")]
        img_size: Option<ImgSize>,
        /// Override a key of `[model]`, as in `--set model.attention.kind=knn`.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print JSON with whole numbers in place of the table.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let text = match &args.what {
        What::List { filter, weights } => {
            let filter = filter.as_deref().unwrap_or("*");
            if *weights {
                published(filter)?
            } else {
                list(filter)?
            }
        }
        What::Show {
            name,
            config,
            img_size,
            set,
            json,
        } => {
            let mut set = set.clone();
            set.extend(img_size.map(|size| format!("model.img_size={}", size.toml())));
            let document = match (config, name) {
                (Some(path), _) => Document::load(path, &set)?,
                (None, Some(name)) => {
                    let text = format!("[model]\nname = {}\n", toml::Value::from(name.as_str()));
                    Document::of_words("", text, &set)?
                }
                (None, None) => bail!("neither a model's name nor `--config`"),
            };
            let plan = document.plan_without_data()?;
            let config = plan.model.config(None)?;
            output::warnings(dense_stages(&plan, &config));
            if *json {
                serde_json::to_string_pretty(&show_json(&config))?
            } else {
                show(&config)
            }
        }
    };
    output::print(&text)
}

/// The names that a filter means.
fn pattern(filter: &str) -> anyhow::Result<Pattern> {
    let pattern = if filter.contains(['*', '?', '[']) {
        filter.to_owned()
    } else {
        format!("*{filter}*")
    };
    Pattern::new(&pattern).with_context(|| format!("`{filter}` is not a valid name pattern"))
}

/// What helps with a filter that matches none: the names, or words of names, that are spelt like it, and the command that `shows` all.
fn hint(filter: &str, names: impl Iterator<Item = String>, shows: &str) -> String {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for name in names {
        known.extend(name.split(['_', '.']).map(str::to_owned));
        known.insert(name);
    }
    let near = similar(filter.trim_matches('*'), known);
    let meant = if near.is_empty() {
        String::new()
    } else {
        format!("did you mean {}? ", quoted(&near))
    };
    format!("{meant}`{shows}` shows all")
}

/// The names of published weights.
fn published(filter: &str) -> anyhow::Result<String> {
    let pattern = pattern(filter)?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut last = None;
    for weights in Published::all() {
        // The first weights of a model are its default.
        let default = if last.replace(weights.model) == Some(weights.model) {
            ""
        } else {
            "default"
        };
        if pattern.matches(&weights.name()) {
            rows.push(vec![
                weights.name(),
                default.to_owned(),
                weights.licence().to_owned(),
            ]);
        }
    }
    if rows.is_empty() {
        let names = Published::all().map(Published::name);
        let hint = hint(filter, names, "kvt models list --weights");
        bail!("no published weights are called like `{filter}`: {hint}");
    }
    Ok(table(["weights", "of the model", "licence"], rows))
}

fn list(filter: &str) -> anyhow::Result<String> {
    let pattern = pattern(filter)?;
    let is_meant = |name: &String| pattern.matches(name);
    let mut rows = Vec::new();
    for name in kvt_models::names().into_iter().filter(is_meant) {
        let config = ModelConfig::by_name(&name)?;
        let summary = config.summary();
        let Summary { params, macs, .. } = summary;
        let stages = summary.stages.iter();
        let tokens: Vec<String> = stages.map(|stage| stage.tokens.to_string()).collect();
        let of_attention = attention(&summary).map_or(0, |all| all.macs.total());
        rows.push(vec![
            name,
            config.img_size().to_string(),
            tokens.join("/"),
            grouped(params),
            human(macs.total() as f64),
            human(of_attention as f64),
        ]);
    }
    let aliases = || kvt_models::aliases().into_iter().map(|(alias, _)| alias);
    let named: Vec<String> = aliases().filter(is_meant).collect();
    if rows.is_empty() && named.is_empty() {
        let names = kvt_models::names().into_iter().chain(aliases());
        let hint = hint(filter, names, "kvt models list");
        bail!("no model is called like `{filter}`: {hint}");
    }
    let aliases = if named.is_empty() {
        String::new()
    } else {
        format!(
            "\n\ntimm's other names of models with the same modules: {}",
            named.join(", ")
        )
    };
    let header = "model,image,tokens,parameters,MACs,of attention";
    Ok(table(header.split(','), rows) + &aliases)
}

fn show(config: &ModelConfig) -> String {
    let summary = config.summary();
    // Show a dash for a stage without keys.
    let count = |number: usize| match number {
        0 => "-".to_owned(),
        number => number.to_string(),
    };
    let stages = summary.stages.iter().map(|stage| {
        let own = stage.attention;
        vec![
            stage.name.clone(),
            stage.depth.to_string(),
            stage.tokens.to_string(),
            count(stage.keys),
            count(stage.k),
            own.map_or("-", |own| own.kind).to_owned(),
            own.map_or("-".to_owned(), |own| grouped(own.params)),
            own.map_or("-".to_owned(), |own| human(own.macs.total() as f64)),
            grouped(stage.params),
            human(stage.macs.total() as f64),
        ]
    });
    let own = attention(&summary).map_or_else(String::new, |own| {
        format!(
            "\nattention   {} parameters and {} MACs in its mechanism, without the projections around it",
            grouped(own.params),
            human(own.macs.total() as f64)
        )
    });
    let header = "stage,blocks,tokens,keys,k,attention,its parameters,its MACs,parameters,MACs";
    format!(
        "{}, {} px, {} classes\nparameters  {}\nMACs        {} ({} linear and convolution, {} attention){own}\n\n{}",
        summary.name,
        config.img_size(),
        config.num_classes(),
        grouped(summary.params),
        human(summary.macs.total() as f64),
        human(summary.macs.linear as f64),
        human(summary.macs.attention as f64),
        table(header.split(','), stages)
    )
}

/// A model in detail, as JSON.
fn show_json(config: &ModelConfig) -> serde_json::Value {
    let summary = config.summary();
    let macs = |macs: Macs| {
        json!({
            "linear": macs.linear,
            "attention": macs.attention,
            "total": macs.total(),
        })
    };
    let own = |own: StageAttention| {
        json!({
            "kind": own.kind,
            "parameters": own.params,
            "macs": macs(own.macs),
        })
    };
    let stages = summary.stages.iter().map(|stage| {
        json!({
            "name": stage.name,
            "blocks": stage.depth,
            "tokens": stage.tokens,
            "keys": stage.keys,
            "k": stage.k,
            "attention": stage.attention.map(own),
            "parameters": stage.params,
            "macs": macs(stage.macs),
        })
    });
    json!({
        "model": summary.name,
        "img_size": config.img_size(),
        "num_classes": config.num_classes(),
        "parameters": summary.params,
        "macs": macs(summary.macs),
        "attention": attention(&summary).map(own),
        "stages": stages.collect::<Vec<_>>(),
    })
}

/// The mechanisms of all stages together, if there are any.
fn attention(summary: &Summary) -> Option<StageAttention> {
    let own = summary.stages.iter().filter_map(|stage| stage.attention);
    own.reduce(StageAttention::with)
}
