"""Golden files of the kinds of attention with feature maps: linear, favor, performer, performer-relu, rfa, dpfp.

Writes `crates/kvt-attention/tests/golden/zoo/<kind>[_option].safetensors`, laid out as `zoo_common.py` says. The draws
are `omega`, random directions `[1, heads or 1, features, head_dim]`.

Papers: 2006.16236 (linear), 2006.03555 (favor), 2009.14794 (performer, performer-relu), 2103.02143 (rfa), 2102.11174
(dpfp), all on arXiv.
"""

import torch

from zoo_common import draw, write


def attend(phi_q, phi_k, v, divisor):
    """Weights are products of features, divided by their sum."""
    weights = phi_q @ phi_k.mT
    return weights @ v / divisor(weights.sum(-1, keepdim=True))


def never_zero(epsilon):
    """For sums that may be negative."""
    return lambda total: total + 2 * epsilon * (total.abs() <= epsilon)


def waves(x, omega):
    angles = x @ omega.mT
    return torch.cat([angles.sin(), angles.cos()], -1) / omega.shape[-2] ** 0.5


def half_square(x):
    return (x * x).sum(-1, keepdim=True) / 2


def linear(q, k, v, epsilon):
    phi = lambda x: torch.nn.functional.elu(x) + 1
    return attend(phi(q), phi(k), v, lambda total: total + epsilon)


def performer(q, k, v, omega, temperature, kernel_epsilon):
    """Positive features. What cancels in the ratio is subtracted: the largest exponent of a query, and of all keys."""
    root = (q.shape[-1] ** -0.5 / temperature) ** 0.5
    exponents = lambda x: x * root @ omega.mT - half_square(x * root)
    q, k = exponents(q), exponents(k)
    phi_q = (q - q.detach().amax(-1, keepdim=True)).exp() + kernel_epsilon
    phi_k = (k - k.detach().amax((-2, -1), keepdim=True)).exp() + kernel_epsilon
    return attend(phi_q, phi_k, v, lambda total: total)


def favor(q, k, v, omega, temperature, epsilon):
    """Waves. exp(|q|^2 / 2) cancels in the ratio, and of the keys' the largest."""
    root = (q.shape[-1] ** -0.5 / temperature) ** 0.5
    length = half_square(k * root)
    phi_k = waves(k * root, omega) * (length - length.detach().amax(-2, keepdim=True)).exp()
    return attend(waves(q * root, omega), phi_k, v, never_zero(epsilon))


def performer_relu(q, k, v, kernel_epsilon, omega=None):
    phi = lambda x: (x if omega is None else x @ omega.mT).relu() + kernel_epsilon
    return attend(phi(q), phi(k), v, lambda total: total)


def rfa(q, k, v, omega, sigma, tau, epsilon):
    unit = lambda x: x / ((x * x).sum(-1, keepdim=True) + 1e-6).sqrt()
    omega = omega * sigma / tau
    return attend(waves(unit(q), omega), waves(unit(k), omega), v, never_zero(epsilon))


def dpfp(q, k, v, order, epsilon):
    def phi(x):
        r = torch.cat([x, -x], -1).relu()
        return torch.cat([r * r.roll(shift, -1) for shift in range(1, order + 1)], -1)

    return attend(phi(q), phi(k), v, lambda total: total + epsilon)


def directions(features, dim, heads=1):
    return lambda generator: {"omega": draw(generator, 1, heads, features, dim)}


def case(name, function, settings, **arguments):
    write(name, lambda *inputs, **tensors: function(*inputs, **tensors, **settings), settings, **arguments)


def main():
    case("linear", linear, dict(epsilon=1e-6), seed=0)
    # Large enough to be seen in the output.
    case("linear_long", linear, dict(epsilon=1.0), batch=1, heads=1, queries=65, keys=65, dim=32, seed=1)
    small = dict(temperature=1.5, epsilon=1e-6)
    case("favor", favor, small, given=directions(24, 8), size=0.5, seed=2)
    positive = dict(temperature=1.0, kernel_epsilon=1e-6)
    case("performer", performer, positive, given=directions(24, 8), seed=3)
    positive = dict(temperature=2.0, kernel_epsilon=1e-2)
    case("performer_cross", performer, positive, given=directions(11, 8), keys=21, seed=4)
    relu = dict(kernel_epsilon=1e-3)
    case("performer-relu", performer_relu, relu, given=directions(24, 8), seed=5)
    case("performer-relu_entries", performer_relu, relu, keys=21, seed=6)
    stretched = lambda generator: {"sigma": (1 + draw(generator, 3, 1, 8) / 4).float()}
    random = dict(tau=0.75, epsilon=1e-3)
    case("rfa", rfa, random, given=directions(16, 8, heads=3), learned=stretched, keys=21, seed=7)
    case("dpfp", dpfp, dict(order=1, epsilon=1e-5), seed=8)
    case("dpfp_order", dpfp, dict(order=3, epsilon=1e-2), keys=21, value_dim=5, seed=9)


if __name__ == "__main__":
    main()
