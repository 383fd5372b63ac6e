//! `kvt bench attention --kind`: every kind of attention over the number of tokens.

use anyhow::{Context, ensure};
use kvt_attention::AttentionConfig;

use super::attention::AttentionArgs;
use super::{Common, asked_or, spread};
use crate::common::bar;
use crate::output;
use crate::table::{grouped, human, table};
use kvt_data::fs::{check_writable, write_text};
use kvt_tools::bench::{
    self, AttentionCase, AttentionInput, AttentionShape, AttentionTimes, KindMeasurement, mebibytes,
};
use kvt_train::config::{Document, kinds_with};
use kvt_train::device;

/// The word that selects every kind.
pub(super) const ALL: &str = "all";
/// Maximum number of values of q: no machine has memory for more.
const MOST_VALUES: usize = 1 << 36;
/// The default sizes of a case, apart from its tokens.
const SHAPE: AttentionShape = AttentionShape {
    batch: 1,
    heads: 4,
    tokens: 197,
    head_dim: 64,
};

pub(super) fn run(args: &AttentionArgs) -> anyhow::Result<()> {
    let cases = cases(args)?;
    let device = device::resolve(&args.device)?;
    let common = &args.common;
    let one = |number: usize| cases.get(number).context("no such case");
    if let Some(number) = common.peak_of {
        return super::print_peak(one(number)?.peak_bytes(&device.device)?);
    }
    if let Some(number) = args.times_of {
        let case = std::slice::from_ref(one(number)?);
        let times = bench::attention(case, &device.device, common.rounds(), |_| ())?;
        return output::print(&serde_json::to_string(&times)?);
    }
    if let Some(folder) = &args.out {
        fs_err::create_dir_all(folder)?;
        // Check the files before measuring.
        for file in KindMeasurement::files(folder) {
            check_writable(&file)?;
        }
    }
    let progress = bar("cases", cases.len());
    let mut records = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        records.push(measure(case, number, common));
        progress.inc(1);
        if let Some(folder) = &args.out {
            // After each case, since a later one may exhaust the machine's memory.
            let table = KindMeasurement::csv(&records);
            write_text(&folder.join(KindMeasurement::CSV), &table)?;
        }
    }
    progress.finish_and_clear();
    let [batch, heads, _, head_dim] = args.shape.unwrap_or(SHAPE).sizes();
    let title =
        format!("kinds of attention, batch {batch}, {heads} heads of {head_dim} channels, f32");
    let header =
        "kind,tokens,parameters,MACs,forward ms,of dense,forward + backward ms,of dense,peak MiB,";
    let rows = records.iter().map(|record| row(record, &records));
    common.finish(&title, &device, &table(header.split(','), rows), &records)?;
    // The table and `--json` come first, since they do not need the plots.
    if let Some(folder) = &args.out {
        KindMeasurement::draw(&records, folder)?;
        output::status(&format!("table and plots are in `{}`", folder.display()));
    }
    Ok(())
}

/// The cases: size by size, and within a size kind by kind.
fn cases(args: &AttentionArgs) -> anyhow::Result<Vec<AttentionCase>> {
    let shape = args.shape.unwrap_or(SHAPE);
    let own = [shape.tokens];
    let sizes = asked_or(&args.tokens, &own);
    for &tokens in sizes {
        let (batch, heads, head_dim) = (shape.batch, shape.heads, shape.head_dim);
        let values = batch.saturating_mul(heads);
        let values = values.saturating_mul(tokens).saturating_mul(head_dim);
        ensure!(
            values <= MOST_VALUES,
            "`--tokens {tokens}` makes more than 2^36 values with batch {batch} and {heads} heads of {head_dim} channels: \
             ask for fewer tokens, or for a smaller `--shape`"
        );
    }
    let wanted = |kind: &&&str| args.kind.iter().any(|name| name == ALL || name == *kind);
    let kinds: Vec<&str> = AttentionConfig::KINDS
        .iter()
        .filter(wanted)
        .copied()
        .collect();
    for set in &args.set {
        let key = set.split('=').next().unwrap_or_default().trim();
        let others = kinds_with(key);
        // An unknown key is refused with the settings.
        ensure!(
            others.is_empty() || others.iter().any(|kind| kinds.contains(kind)),
            "`--set {set}`: no kind that is measured has `{key}`: leave it out, or measure one that has it ({})",
            others.join(", ")
        );
    }
    let kinds = kinds.into_iter().map(|kind| settings(kind, &args.set));
    let kinds = kinds.collect::<anyhow::Result<Vec<_>>>()?;
    let cases = sizes.iter().flat_map(|&tokens| {
        kinds.iter().map(move |attention| AttentionCase {
            shape: AttentionShape { tokens, ..shape },
            input: AttentionInput::Normal,
            attention: attention.clone(),
        })
    });
    Ok(cases.collect())
}

/// A kind with its defaults and the overrides that apply to it, checked like a configuration.
fn settings(kind: &str, set: &[String]) -> anyhow::Result<AttentionConfig> {
    let text =
        format!("[model]\nname = \"deit_tiny_patch16_224\"\n[model.attention]\nkind = {kind:?}\n");
    let set: Vec<String> = set
        .iter()
        .map(|set| format!("model.attention.{set}"))
        .collect();
    let document = Document::of_words(&format!("--kind {kind}"), text, &set)?.shared();
    let plan = document.plan_without_data()?;
    let attention = plan.model.overrides.attention.unwrap_or_default();
    let set = attention.kind();
    ensure!(
        set == kind,
        "`--set kind={set}` contradicts `--kind {kind}`: leave it out"
    );
    attention.validate()?;
    Ok(attention)
}

/// Times and memory of a case, each from a fresh process. A failure there becomes a note.
fn measure(case: &AttentionCase, number: usize, common: &Common) -> KindMeasurement {
    let mut record = case.record();
    if record.note.is_some() {
        return record;
    }
    match common.child::<[AttentionTimes; 1]>(&format!("--times-of={number}"), &[]) {
        Ok([times]) => {
            record.times = Some(times);
            match common.peak(number) {
                Ok(bytes) => record.peak_bytes = bytes,
                Err(reason) => record.note = Some(format!("no memory: {reason}")),
            }
        }
        Err(reason) => record.note = Some(reason),
    }
    record
}

fn row(record: &KindMeasurement, all: &[KindMeasurement]) -> Vec<String> {
    let none = || "-".to_owned();
    let times = record.times.as_ref();
    let share = |of: fn(&AttentionTimes) -> f64| {
        let share = record.of_dense(all, of);
        share.map_or_else(none, |share| format!("{share:.2}"))
    };
    vec![
        record.kind.to_owned(),
        record.shape.tokens.to_string(),
        record.params.map_or_else(none, grouped),
        record.macs.map_or_else(none, |macs| human(macs as f64)),
        times.map_or_else(none, |times| spread(&times.forward)),
        share(|times| times.forward.median),
        times.map_or_else(none, |times| spread(&times.forward_backward)),
        share(|times| times.forward_backward.median),
        mebibytes(record.peak_bytes),
        record.note.clone().unwrap_or_default(),
    ]
}
