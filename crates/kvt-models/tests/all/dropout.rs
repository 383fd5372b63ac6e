//! Attention dropout reaches the attention of every family, and its key decides what is dropped.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{Implementation, Key, Phase};
use kvt_models::{Model, ModelOverrides};

use crate::cases::{config, file_name, files};

#[test]
fn every_family_drops_attention_weights_while_it_trains() {
    let device = Device::flex();
    for family in ["deit", "swin", "pit", "cvt"] {
        let files = files(family);
        let path = files.first().unwrap();
        let name = file_name(path);
        let model = |attn_drop| {
            let overrides = ModelOverrides {
                attn_drop: Some(attn_drop),
                drop_path: Some(0.0),
                ..ModelOverrides::default()
            };
            let config = config(path, Implementation::Auto).with(&overrides);
            config.unwrap().init(&device, Key::new(1)).unwrap()
        };
        let run = |model: &Model, phase| -> Vec<f32> {
            let config = model.config();
            let side = config.img_size();
            let shape = [2, config.in_chans(), side, side];
            let values: Vec<f32> = (0..shape.iter().product())
                .map(|i: usize| (i * 7919 % 1009) as f32 / 300.0 - 1.5)
                .collect();
            let images = Tensor::from_data(TensorData::new(values, shape), &device);
            model
                .forward(images, phase)
                .into_data()
                .try_to_vec()
                .unwrap()
        };
        let (plain, dropping) = (model(0.0), model(0.5));
        assert_eq!(
            run(&dropping, Phase::Eval),
            run(&plain, Phase::Eval),
            "{name}"
        );
        let [a, b] = [1, 2].map(|step| Phase::Train(Key::new(step)));
        assert_eq!(run(&plain, a), run(&plain, b), "{name}");
        assert_eq!(run(&dropping, a), run(&dropping, a), "{name}");
        assert_ne!(run(&dropping, a), run(&dropping, b), "{name}");
        assert_ne!(run(&dropping, a), run(&plain, a), "{name}");
    }
}
