//! The loss of DINO: cross-entropy between student and teacher for different views of an image.

use burn::tensor::Tensor;
use burn::tensor::activation::{log_softmax, softmax};

/// Number of views that the teacher gets, which come first.
pub const GLOBAL_VIEWS: usize = 2;

/// The teacher's distribution, `softmax((outputs - centre) / temperature)`.
///
/// # Shapes
///
/// `[n, out_dim]` and `[out_dim]` to `[n, out_dim]`
pub fn teacher_probabilities(outputs: Tensor<2>, centre: Tensor<1>, temperature: f64) -> Tensor<2> {
    softmax((outputs - centre.unsqueeze::<2>()) / temperature, 1)
}

/// The mean, over all pairs of a teacher's view and a different view of the student, of the mean cross-entropy of a batch, `[1]`.
///
/// # Shapes
///
/// `teacher`: `[2 * batch, out_dim]`, probabilities; `student`: `[views * batch, out_dim]`, outputs. Both view by view.
pub fn dino_loss(teacher: &Tensor<2>, student: Tensor<2>, temperature: f64) -> Tensor<1> {
    let [rows, out_dim] = teacher.dims();
    let batch = rows / GLOBAL_VIEWS;
    let views = student.dims()[0] / batch.max(1);
    let log = log_softmax(student / temperature, 1);
    let of_view = |x: &Tensor<2>, view: usize| x.clone().narrow(0, view * batch, batch);
    // For all views at once: sum_v -q log p_v = -q sum_v log p_v.
    let all = log
        .clone()
        .reshape([views, batch, out_dim])
        .sum_dim(0)
        .squeeze_dim::<2>(0);
    let pairs = GLOBAL_VIEWS * (views - 1);
    let of_teacher = |view: usize| {
        let others = all.clone() - of_view(&log, view);
        (of_view(teacher, view) * others).sum()
    };
    // For each of the global views.
    (of_teacher(0) + of_teacher(1)) / (-((pairs * batch) as f64))
}
