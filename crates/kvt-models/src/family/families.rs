//! The families of models: one list that generates the enums of configurations and backbones, the names of all
//! models, and the recognition of weights. A new family is a line here; `docs/contributing/add-model.md` names its other files.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::Phase;

use crate::backbone::{Ask, Backbone, Features};
use crate::error::ModelError;
use crate::family::common::CommonConfig;
use crate::family::model_keys::ModelOverrides;
use crate::family::{Common, Family, FamilyConfig};
use crate::layers::Init;
use crate::{cvt, pit, so_vit, swin, t2t, tnt, twins, visformer, vit, volo};

/// Each line: module, network, configuration, and the name in the documentation. The module also has a `FAMILY`.
macro_rules! families {
    ($($module:ident: $Network:ident from $Config:ident, $name:literal;)*) => {
        /// The configuration of any model.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ModelConfig {
            $(#[doc = $name] $Network($module::$Config),)*
        }

        /// Any backbone, as one module.
        #[expect(
            clippy::large_enum_variant,
            reason = "there are few models, and each holds far more memory elsewhere"
        )]
        #[derive(Module, Debug)]
        pub enum AnyBackbone {
            $(#[doc = $name] $Network($module::$Network),)*
        }

        $(
            impl From<$module::$Config> for ModelConfig {
                fn from(config: $module::$Config) -> Self {
                    Self::$Network(config)
                }
            }

            impl Common for $module::$Config {
                fn common(&self) -> &CommonConfig {
                    &self.common
                }
            }
        )*

        /// All families, in the order of the list.
        pub(crate) static FAMILIES: &[&Family] = &[$(&$module::FAMILY,)*];

        /// All named models, family by family.
        pub(crate) fn named() -> Vec<ModelConfig> {
            let mut all = Vec::new();
            $(all.extend($module::$Config::named().into_iter().map(ModelConfig::from));)*
            all
        }

        /// All models under their other names in timm, family by family.
        pub(crate) fn aliased() -> Vec<(String, ModelConfig)> {
            let mut all = Vec::new();
            $(all.extend(
                $module::$Config::aliases().into_iter().map(|(name, config)| (name, config.into())),
            );)*
            all
        }

        impl ModelConfig {
            /// The properties of all models of the family.
            pub(crate) fn family(&self) -> &'static Family {
                match self {
                    $(Self::$Network(_) => &$module::FAMILY,)*
                }
            }

            /// The configuration as the trait of its family.
            pub(crate) fn of_family(&self) -> &dyn FamilyConfig {
                match self {
                    $(Self::$Network(config) => config,)*
                }
            }

            /// The settings that all families share.
            pub(crate) fn common(&self) -> &CommonConfig {
                self.of_family().common()
            }

            /// The same, to be changed.
            pub(crate) fn common_mut(&mut self) -> &mut CommonConfig {
                match self {
                    $(Self::$Network(config) => &mut config.common,)*
                }
            }

            /// This configuration with some values replaced. The family accepts all of these values.
            pub(crate) fn replace(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
                match self {
                    $(Self::$Network(mut config) => {
                        config.common = config.common.with(overrides);
                        Ok(config.with(overrides)?.into())
                    })*
                }
            }

            /// The backbone of a valid configuration with the original's initialisation.
            pub(crate) fn backbone(&self, init: &Init<'_>) -> AnyBackbone {
                match self {
                    $(Self::$Network(config) => AnyBackbone::$Network($module::$Network::new(config, init)),)*
                }
            }
        }

        impl Backbone for AnyBackbone {
            fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
                match self {
                    $(Self::$Network(network) => network.features(images, ask, phase),)*
                }
            }
        }
    };
}

families! {
    vit: Vit from VitConfig, "ViT and DeiT.";
    swin: Swin from SwinConfig, "Swin.";
    pit: Pit from PitConfig, "PiT.";
    cvt: Cvt from CvtConfig, "CvT.";
    t2t: T2t from T2tConfig, "T2T-ViT.";
    tnt: Tnt from TntConfig, "TNT.";
    so_vit: SoVit from SoVitConfig, "So-ViT.";
    visformer: Visformer from VisformerConfig, "Visformer.";
    twins: Twins from TwinsConfig, "Twins-SVT.";
    volo: Volo from VoloConfig, "VOLO.";
}
