//! The model that `kvt bench forward` and `kvt bench step` measure.

use clap::ArgGroup;
use clap::builder::PossibleValuesParser;
use kvt_attention::{AttentionConfig, DenseConfig, MechanismConfig as _};

use crate::common::{ModelArgs, Overrides};
use kvt_tools::bench::ModelCase;
use kvt_train::config::Plan;

#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("model or configuration").required(true).args(["model", "config"])))]
pub(super) struct MeasuredModel {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    overrides: Overrides,
    /// Which attention; dense and k-NN take turns by default.
    #[arg(long, value_delimiter = ',', default_value = "dense,knn", value_parser = PossibleValuesParser::new(AttentionConfig::KINDS))]
    pub(super) kind: Vec<String>,
}

impl MeasuredModel {
    /// The plan of all cases, without data: its device and its precision.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        self.plan_of(DenseConfig::KIND, &[])
    }

    fn plan_of(&self, kind: &str, more: &[String]) -> anyhow::Result<Plan> {
        let mut overrides = self.overrides.all();
        overrides.push(format!("model.attention.kind={kind}"));
        overrides.extend_from_slice(more);
        let document = self.model.document(&overrides)?.shared();
        Ok(document.plan_without_data()?)
    }

    /// A case with this kind of attention, and with more overrides.
    pub(super) fn case(
        &self,
        kind: &str,
        batch: usize,
        more: &[String],
    ) -> anyhow::Result<ModelCase> {
        let plan = self.plan_of(kind, more)?;
        Ok(ModelCase::of(kind, &plan, batch)?)
    }
}
