"""Numbers for the paper's three lemmas, in f64: `crates/kvt-attention/tests/golden/lemmas.json`.

Lemma 1. V_l = sum_t a_t x_t W_V, a = softmax over the k keys t with the largest
s_lt = x_l W_Q W_K^T x_t^T / sqrt(d); rows are tokens, l = `query`. With
Var = sum_t a_t x_t^T x_t - (sum_t a_t x_t)^T (sum_t a_t x_t) and q_l = x_l W_Q,

  dV_l / dW_Q[i,j] = x_l[i] (W_K[:,j]^T Var W_V) / sqrt(d)       the paper omits 1 / sqrt(d)
  dV_l / dW_K[i,j] = q_l[j] (Var[i,:] W_V) / sqrt(d)             correct
  eq. 15 as printed: x_l[i] (W_Q[:,j]^T Var W_V) [/ sqrt(d)]     wrong

Per attention (`dense`, `knn`): d_wq, d_wk [i][j][c] by autograd, the largest difference of each
closed form from it, trace of Var. n = 7, d = 4, k = 3, everything N(0,1), W scaled by 1/2.

Lemma 2. 196 tokens in 32 dimensions: 60 relevant with mean 2 e_0, the others in turn with means
2 e_1, 2 e_2, 2 e_3 (46, 45, 45); noise N(0, 1/32) per entry. The query is the first relevant token,
scores x_l . x_t / sqrt(32), W_V = identity. Error = max_c |V_l - 2 e_0|_c, mean over 200 draws.
The smallest error is at k = 60.

Lemma 3. 196 keys N(0, I_d), the first 8 relevant, q = mean of the relevant + 0.5 N(0, I_d). Needed
share = |{i : q.k_i >= min over relevant of q.k}| / 196, mean over 200 draws. It falls with d.
"""

import torch

from common import golden, save_json

torch.set_default_dtype(torch.float64)


def lemma_1(generator, n=7, d=4, k=3, query=2):
    x, w_q, w_k, w_v = (torch.randn(shape, generator=generator) for shape in ((n, d), (d, d), (d, d), (d, d)))
    w_q, w_k, w_v = 0.5 * w_q, 0.5 * w_k, 0.5 * w_v
    result = dict(n=n, d=d, k=k, query=query, x=x.tolist(), w_q=w_q.tolist(), w_k=w_k.tolist(), w_v=w_v.tolist())
    root = d**0.5

    def value(w_q, w_k, count):
        scores = x[query] @ w_q @ (x @ w_k).T / root
        kept = scores.topk(count).indices
        weights = scores[kept].softmax(0)
        return weights @ x[kept] @ w_v, weights, x[kept]

    for name, count in (("dense", n), ("knn", k)):
        out, a, kept = value(w_q, w_k, count)
        mean = a @ kept
        variance = kept.T @ torch.diag(a) @ kept - torch.outer(mean, mean)
        # Jacobians come as [c, i, j]; c last reads as the formulas do.
        d_wq, d_wk = torch.autograd.functional.jacobian(lambda q, w: value(q, w, count)[0], (w_q, w_k))
        d_wq, d_wk = d_wq.permute(1, 2, 0), d_wk.permute(1, 2, 0)
        closed_wq = torch.einsum("i,jc->ijc", x[query], w_k.T @ variance @ w_v) / root
        closed_wk = torch.einsum("j,ic->ijc", x[query] @ w_q, variance @ w_v) / root
        printed_wk = torch.einsum("i,jc->ijc", x[query], w_q.T @ variance @ w_v)
        error = lambda closed, exact: (closed - exact).abs().max().item()
        assert error(closed_wq, d_wq) < 1e-12 and error(closed_wk, d_wk) < 1e-12
        result[name] = {
            "out": out.tolist(), "trace_var": variance.trace().item(), "d_wq": d_wq.tolist(), "d_wk": d_wk.tolist(),
            "closed_wq_error": error(closed_wq, d_wq), "closed_wk_error": error(closed_wk, d_wk),
            "printed_wk_error": error(printed_wk, d_wk), "printed_wk_scaled_error": error(printed_wk / root, d_wk),
        }
    return result


def lemma_2(generator, draws=200, n=196, relevant=60, d=32):
    counts = [1, 10, 40, 60, 80, 100, 150, 196]
    group = torch.cat([torch.zeros(relevant, dtype=torch.long), 1 + torch.arange(n - relevant) % 3])
    means = 2 * torch.eye(4, d)
    total = torch.zeros(len(counts))
    for _ in range(draws):
        x = means[group] + torch.randn(n, d, generator=generator) / d**0.5
        scores = x @ x[0] / d**0.5
        for slot, k in enumerate(counts):
            kept = scores.topk(k).indices
            total[slot] += (scores[kept].softmax(0) @ x[kept] - means[0]).abs().max()
    error = dict(zip(map(str, counts), (total / draws).tolist()))
    assert min(error, key=error.get) == str(relevant)
    return {"k": counts, "error": list(error.values()), "draws": draws}


def lemma_3(generator, draws=200, n=196, relevant=8, noise=0.5):
    dims, shares = [8, 16, 32, 64, 128], []
    for d in dims:
        total = 0.0
        for _ in range(draws):
            keys = torch.randn(n, d, generator=generator)
            q = keys[:relevant].mean(0) + noise * torch.randn(d, generator=generator)
            scores = keys @ q
            total += (scores >= scores[:relevant].min()).double().mean().item()
        shares.append(total / draws)
    assert shares == sorted(shares, reverse=True)
    return {"d": dims, "share": shares, "draws": draws}


if __name__ == "__main__":
    seed = 0
    generator = torch.Generator().manual_seed(seed)
    result = {"lemma_1": lemma_1(generator), "lemma_2": lemma_2(generator), "lemma_3": lemma_3(generator)}
    print({n: {k: v for k, v in result["lemma_1"][n].items() if "error" in k or "trace" in k} for n in ("dense", "knn")})
    print(result["lemma_2"], result["lemma_3"])
    save_json(golden("kvt-attention") / "lemmas.json", result, seed)
