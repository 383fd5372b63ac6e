//! Loads weights into a model, and reports on every key.

use std::collections::BTreeSet;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{DType, TensorData};
use burn_store::{
    ApplyError, ModuleAdapter, ModuleSnapshot, PyTorchToBurnAdapter, bridge, burn_pack,
};

use super::{channels, nearest, recognise};
use crate::model::{Model, Parameter, is_of_mixer};
use crate::weights::Layout;
use crate::weights::{LoadReport, LoadRow, Misfit, Outcome, StateDict, WeightsError};

/// Options of loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Whether a parameter stays as initialised if its key is missing or has another shape, which is otherwise an error. The report
    /// lists it.
    pub partial: bool,
    /// Whether a classification head that is missing or of another size stays as initialised.
    pub reset_head: bool,
    /// Whether the classification head stays as initialised even if that of the weights would fit: other classes may
    /// have the same number.
    pub new_head: bool,
    /// Whether parameters of the mechanisms of attention that are missing or of another size stay as initialised: weights
    /// of a model with another kind of attention lack them.
    pub reset_mixer: bool,
}

impl Model {
    /// This model with the given weights, under timm's names or the names of the original repository.
    ///
    /// Position embeddings of another image size are resized as timm does, and so is the first convolution of weights for images of 3
    /// channels adapted to others. Half-precision weights
    /// are widened, so that a model is always trained from 32-bit weights. The factors of LoRA stay as they are.
    ///
    /// # Errors
    ///
    /// Unless [partial](LoadOptions::partial), missing keys or other shapes (the error lists the first of them), weights of another
    /// model with the same names, or a head that reads another pool than this model has; a new head may. In any case, weights that
    /// are not floating point.
    pub fn load(
        mut self,
        weights: &StateDict,
        options: LoadOptions,
    ) -> Result<(Self, LoadReport), WeightsError> {
        if !options.partial {
            self.refuse_variants(weights)?;
        }
        let weights = &self.rename(weights, Layout::Timm);
        let mut report = LoadReport::default();
        let mut tensors = Vec::new();
        let mut used = BTreeSet::new();
        for Parameter { name, shape, .. } in self.state() {
            let found = weights.shared(&name);
            let (outcome, data) = self.fit(&name, &shape, found, options)?;
            if let Some(data) = data {
                tensors.push(deferred(data, self.path(&name)));
            }
            used.insert(name.clone());
            report.rows.push(LoadRow {
                name,
                expected: Some(shape),
                found: found.map(|data| data.shape().to_vec()),
                outcome,
            });
        }
        let others = weights.iter().filter(|(name, _)| !used.contains(*name));
        report.rows.extend(others.map(|(name, data)| LoadRow {
            name: name.to_owned(),
            expected: None,
            found: Some(data.shape().to_vec()),
            outcome: if self.config.family().is_computed(name) {
                Outcome::Computed
            } else {
                Outcome::Unused
            },
        }));
        if !options.partial {
            report = self.fitting(report, weights)?;
        }
        put(&mut self, tensors, Some(Box::new(PyTorchToBurnAdapter)))?;
        Ok((self, report))
    }

    /// Refuses weights of another model with the same names.
    fn refuse_variants(&self, weights: &StateDict) -> Result<(), WeightsError> {
        self.config.family().check_variant(weights)?;
        let vit = self.config.vit();
        let Some(foreign) = vit.and_then(|vit| vit.foreign(weights)) else {
            return Ok(());
        };
        let hint = match nearest(weights) {
            Ok(Some(name)) => format!("this one is without; `{name}` is with it"),
            _ => "no model of kvt has that and the rest of these weights".to_owned(),
        };
        Err(foreign.error(hint))
    }

    /// The report, if the weights fit in every parameter, and their head, if it is loaded, reads what this model pools.
    fn fitting(&self, report: LoadReport, weights: &StateDict) -> Result<LoadReport, WeightsError> {
        let matched = || report.names(Outcome::Matched);
        if !report.fits() {
            let family = self.config.family().name;
            let parameters = report.rows.iter().filter(|row| row.expected.is_some());
            // If hardly any key is found, the reason says more than a list.
            let is_strange = 2 * matched().count() < parameters.count();
            let known = recognise(weights).filter(|known| is_strange && known.family != family);
            if let Some(known) = known {
                return Err(WeightsError::OtherFamily {
                    found: known.family,
                    model: self.config.name(),
                    family,
                });
            }
            let misfit = self.misfit(&report);
            return Err(WeightsError::Incompatible { report, misfit });
        }
        let has_head = matched().any(|name| self.is_of_head(name));
        let vit = self.config.vit();
        match vit.and_then(|vit| vit.other_pool(weights)) {
            Some(pool) if has_head => Err(pool.error(
                "their head cannot read what this one pools: set `model.pool = \"attention\"`, or start with a new head \
                 (`init.reset_head = \"always\"`)",
            )),
            _ => Ok(report),
        }
    }

    /// Whether a parameter, by its name, belongs to the classification head.
    pub fn is_of_head(&self, name: &str) -> bool {
        self.config.family().is_of_head(name)
    }

    /// Which parts of the model the weights do not fit.
    fn misfit(&self, report: &LoadReport) -> Misfit {
        let problems = || report.rows.iter().filter(|row| row.is_problem());
        let heads = problems().filter(|row| self.is_of_head(&row.name));
        let mixers = problems().filter(|row| is_of_mixer(&row.name));
        let (all, heads, mixers) = (problems().count(), heads.count(), mixers.count());
        match (heads > 0, mixers > 0) {
            _ if heads + mixers < all => Misfit::Others,
            (true, false) => Misfit::Head,
            (false, _) => Misfit::Mixers,
            (true, true) => Misfit::HeadAndMixers,
        }
    }

    /// A weight of another image size at the size of the parameter `name`.
    fn resize(&self, name: &str, shape: &[usize], weight: &TensorData) -> Option<TensorData> {
        let resized = self.config.of_family().resize(name, shape, weight);
        resized.filter(|resized| resized.shape().as_slice() == shape)
    }

    /// The outcome of one parameter, and the data it gets.
    fn fit(
        &self,
        name: &str,
        shape: &[usize],
        found: Option<&Arc<TensorData>>,
        options: LoadOptions,
    ) -> Result<(Outcome, Option<Arc<TensorData>>), WeightsError> {
        let is_of_head = self.is_of_head(name);
        if options.new_head && is_of_head {
            return Ok((Outcome::Reset, None));
        }
        let resets = options.reset_head && is_of_head || options.reset_mixer && is_of_mixer(name);
        let Some(found) = found else {
            let outcome = if resets {
                Outcome::Reset
            } else if self.config.family().is_computed(name) {
                Outcome::Computed
            } else {
                Outcome::Missing
            };
            return Ok((outcome, None));
        };
        let is_of_shape = found.shape().as_slice() == shape;
        if resets && !is_of_shape {
            return Ok((Outcome::Reset, None));
        }
        let data = widened(name, found)?;
        if is_of_shape {
            return Ok((Outcome::Matched, Some(data)));
        }
        // Parameters of a mechanism may have a dimension of 3, too.
        let reads_images = !is_of_mixer(name) && shape.get(1) == Some(&self.config.in_chans());
        if reads_images && let Some(data) = channels::adapted(&data, shape) {
            return Ok((Outcome::Adapted, Some(Arc::new(data))));
        }
        if let Some(data) = self.resize(name, shape, &data) {
            return Ok((Outcome::Resized, Some(Arc::new(data))));
        }
        Ok((Outcome::Mismatched, None))
    }
}

/// A weight in 32 bits: the same one, or a copy of one in another type.
///
/// # Errors
///
/// [`WeightsError::NotFloat`], with the name.
pub(crate) fn widened(name: &str, data: &Arc<TensorData>) -> Result<Arc<TensorData>, WeightsError> {
    let dtype = data.dtype();
    if dtype == DType::F32 {
        return Ok(Arc::clone(data));
    }
    let not_float = || WeightsError::NotFloat {
        name: name.to_owned(),
        dtype,
    };
    if !dtype.is_float() {
        return Err(not_float());
    }
    let wide = TensorData::clone(data).try_cast_as::<f32>();
    Ok(Arc::new(wide.map_err(|_| not_float())?))
}

/// A weight for the parameter at a path, which is copied when it is its turn: a module takes the first one's place before the next
/// is copied, and the copies of all would be another model.
pub(crate) fn deferred(data: Arc<TensorData>, path: String) -> burn_pack::Tensor {
    let (dtype, shape) = (data.dtype(), data.shape().clone());
    bridge::deferred(path, dtype, shape, None, move || {
        Ok(TensorData::clone(&data))
    })
}

/// Replaces parameters of a module by their paths.
///
/// # Errors
///
/// [`WeightsError::Transfer`], with the first path that cannot be read.
pub(crate) fn put(
    module: &mut impl Module,
    tensors: Vec<burn_pack::Tensor>,
    adapter: Option<Box<dyn ModuleAdapter>>,
) -> Result<(), WeightsError> {
    let applied = module.apply(tensors, None, adapter, true);
    let Some(error) = applied.errors.first() else {
        return Ok(());
    };
    let (ApplyError::ShapeMismatch { path, .. }
    | ApplyError::DTypeMismatch { path, .. }
    | ApplyError::AdapterError { path, .. }
    | ApplyError::LoadError { path, .. }) = error;
    Err(WeightsError::Transfer {
        name: path.clone(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
