//! What Burn's gradient checkpointing saves and costs: memory and time of a forward and a backward pass.
//!
//! ```sh
//! cargo run -p kvt-tools --example checkpointing -- visformer_tiny none
//! cargo run -p kvt-tools --example checkpointing -- visformer_tiny balanced
//! ```
//!
//! `balanced` is Burn's strategy: what it knows to be bound by memory is computed again in the backward pass. One strategy a process,
//! since the peak is that of a process.

#![expect(clippy::print_stdout, reason = "what it measures")]

use std::error::Error;

use burn::tensor::{Device, Tensor};
use kvt_models::ModelConfig;
use kvt_ops::{Key, Phase};
use kvt_tools::bench::{mebibytes, peak_of, time};

/// Images of a pass, and passes that are timed.
const BATCH: usize = 8;
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or("deit_tiny_patch16_224".to_owned());
    let plain = Device::flex().autodiff();
    let device = match words.next().as_deref() {
        None | Some("none") => plain,
        Some("balanced") => plain.gradient_checkpointing(),
        Some(other) => return Err(format!("no strategy `{other}`: `none` or `balanced`").into()),
    };
    let config = ModelConfig::by_name(&name)?;
    let (height, width) = config.img_size().sides();
    let model = config.init(&device, Key::new(0))?;
    let images = Tensor::<4>::zeros([BATCH, config.in_chans(), height, width], &device);
    let pass = || {
        let logits = model.forward(images.clone(), Phase::Train(Key::new(1)));
        Ok(logits.powf_scalar(2.0).mean().backward())
    };
    let peak = peak_of(&device, pass)?;
    let times: Result<Vec<f64>, _> = (0..ROUNDS).map(|_| time(&device, pass)).collect();
    let mut times = times?;
    times.sort_by(f64::total_cmp);
    let median = times[ROUNDS / 2];
    println!(
        "{name}, batch {BATCH}: {median:.0} ms, {} MiB",
        mebibytes(peak)
    );
    Ok(())
}
