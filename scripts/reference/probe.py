"""Golden numbers of probes: DINO's k-NN classifier and its linear evaluation on fixed features, in f64 on the CPU.

Writes to `crates/kvt-train/tests/golden/`:

  probe.safetensors
    bank [240, 12], bank_labels [240], queries [60, 12], query_labels [60]
    top1, top5 [4]            right queries, for k = 10, 20, 100, 200, temperature 0.07
    start [12, 7]             first weights of the linear layer (inputs, outputs)
    losses [12], lrs [3]      of each update, of each epoch: 3 epochs of 4 batches of 60 rows of the bank in order
    weight [12, 7], bias [7]  after them

The k-NN classifier is the one of the original's eval_knn.py: features of length 1, the k largest products, votes of
exp(product / temperature) for the class of each. Linear evaluation is the one of eval_linear.py: SGD with momentum 0.9 and no
decay, rate lr * batch / 256, half a cosine to 0 that is stepped after each epoch.
"""

import torch
from torch.nn import functional as F

from common import golden, save

SEED, CLASSES, DIM, BANK, QUERIES = 3, 7, 12, 240, 60
KS, TEMPERATURE = (10, 20, 100, 200), 0.07
LINEAR = dict(epochs=3, batch_size=60, lr=0.3)


def features(generator, centers, count):
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    noise = torch.randn(count, DIM, generator=generator, dtype=torch.float64)
    return (centers[labels] + 1.6 * noise).float().double(), labels


def knn(bank, bank_labels, queries, query_labels, k):
    products = F.normalize(queries) @ F.normalize(bank).T
    products, places = products.topk(k, largest=True, sorted=True)
    votes = F.one_hot(bank_labels[places], CLASSES) * (products / TEMPERATURE).exp().unsqueeze(-1)
    order = votes.sum(1).sort(descending=True).indices
    right = order == query_labels.unsqueeze(-1)
    return right[:, :1].sum().item(), right[:, :5].sum().item()


def linear(bank, labels, start):
    layer = torch.nn.Linear(DIM, CLASSES).double()
    layer.weight.data.copy_(start.T)
    layer.bias.data.zero_()
    lr = LINEAR["lr"] * LINEAR["batch_size"] / 256
    optimizer = torch.optim.SGD(layer.parameters(), lr, momentum=0.9, weight_decay=0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, LINEAR["epochs"], eta_min=0)
    losses, lrs = [], []
    for _ in range(LINEAR["epochs"]):
        lrs.append(optimizer.param_groups[0]["lr"])
        for rows, targets in zip(bank.split(LINEAR["batch_size"]), labels.split(LINEAR["batch_size"])):
            loss = F.cross_entropy(layer(rows), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    return losses, lrs, layer


def main():
    generator = torch.Generator().manual_seed(SEED)
    centers = 1.2 * torch.randn(CLASSES, DIM, generator=generator, dtype=torch.float64)
    bank, bank_labels = features(generator, centers, BANK)
    queries, query_labels = features(generator, centers, QUERIES)
    right = [knn(bank, bank_labels, queries, query_labels, k) for k in KS]
    start = (0.01 * torch.randn(DIM, CLASSES, generator=generator)).double()
    losses, lrs, layer = linear(bank, bank_labels, start)
    print(right, [round(x, 4) for x in losses], lrs)
    numbers = lambda values: torch.tensor(values, dtype=torch.float64)
    tensors = dict(bank=bank, bank_labels=bank_labels, queries=queries, query_labels=query_labels,
                   top1=torch.tensor([a for a, _ in right]), top5=torch.tensor([b for _, b in right]), start=start,
                   losses=numbers(losses), lrs=numbers(lrs), weight=layer.weight.T, bias=layer.bias)
    config = dict(ks=KS, temperature=TEMPERATURE, classes=CLASSES, **LINEAR)
    save(golden("kvt-train") / "probe.safetensors", tensors, config, SEED)


if __name__ == "__main__":
    main()
