"""Parquet files of generated images, as Hugging Face's `datasets` and as pyarrow write them.

Writes `crates/kvt-data/tests/fixtures/parquet/`:

- `hub/data/train-00000-of-00002.parquet`, ..., `validation-00000-of-00001.parquet`: 22 and 6 images of three classes by
  `datasets`, as a repository of the Hub has them;
- `<variant>.parquet`: 12 images by pyarrow in the ways that a column can be written, without names of the classes.

Image `n` is a PNG of 6 x 5 pixels; pixel (x, y) is (7 n + 11 x, 23 y + 40 label, n x y) modulo 256, its label n modulo 3. The test
knows this rule too. In `nulls.parquet` rows 3 and 7 have no image. In `classes*.parquet` each class has a column in place of `label`:
`even` of images with an even number, `third` of each third one, `owl` of none.

Needs `pip install datasets==5.2.0 pillow==13.0.0`, which brings pyarrow (26.0.1); nothing else here does.
"""

import io
import pathlib
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, Features, Image
from PIL import Image as Pillow

OUT = pathlib.Path(__file__).resolve().parents[2] / "crates/kvt-data/tests/fixtures/parquet"
NAMES = ["cat", "dog", "ship"]
# In another order than their sorted one.
TEXTS = ["class 9", "cat", "class 10"]


def png(number):
    x, y = np.meshgrid(np.arange(6), np.arange(5))
    label = number % 3
    pixels = np.stack([7 * number + 11 * x, 23 * y + 40 * label, number * x * y], axis=-1) % 256
    file = io.BytesIO()
    Pillow.fromarray(pixels.astype(np.uint8)).save(file, "PNG", optimize=True)
    return file.getvalue()


def hub():
    """By `datasets`, the way `push_to_hub` names the files."""
    folder = OUT / "hub" / "data"
    folder.mkdir(parents=True)
    features = Features({"image": Image(), "label": ClassLabel(names=NAMES)})
    for split, first, count, files in [("train", 0, 22, 2), ("validation", 22, 6, 1)]:
        numbers = range(first, first + count)
        rows = {"image": [{"bytes": png(n), "path": f"{n}.png"} for n in numbers], "label": [n % 3 for n in numbers]}
        data = Dataset.from_dict(rows, features=features)
        for file in range(files):
            shard = data.shard(files, file, contiguous=True)
            shard.to_parquet(folder / f"{split}-{file:05}-of-{files:05}.parquet", batch_size=8)


def variants():
    """By pyarrow."""
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = [{"bytes": png(n), "path": None} for n in range(12)]
    labels = [n % 3 for n in range(12)]

    def write(name, images=images, labels=labels, label_type=pa.int64(), column="image", **options):
        fields = [(column, image), ("label", label_type)]
        table = pa.table([pa.array(images, image), pa.array(labels, label_type)], schema=pa.schema(fields))
        options = dict(row_group_size=7, compression="snappy", store_schema=False) | options
        pq.write_table(table, OUT / f"{name}.parquet", **options)

    write("plain", use_dictionary=False, compression="none")
    write("plain_pages", use_dictionary=False, data_page_size=300, write_batch_size=2)
    write("plain_v2", use_dictionary=False, data_page_version="2.0", data_page_size=300, write_batch_size=2)
    write("dictionary", use_dictionary=True)
    write("dictionary_v2", use_dictionary=True, data_page_version="2.0")
    # The dictionary is full after a few images; the rest is plain.
    write("dictionary_full", use_dictionary=True, dictionary_pagesize_limit=300, write_batch_size=2, data_page_size=300)
    write("numbers", label_type=pa.int32(), column="img")
    nulls = list(images)
    nulls[3], nulls[7] = None, {"bytes": None, "path": "7.png"}
    write("nulls", images=nulls)
    write("no_label", labels=[None if n == 4 else n % 3 for n in range(12)])
    write("no_labels", labels=[-1] * 12)
    # Every compression that is read, and one that is not.
    for codec in ["zstd", "gzip", "lz4", "brotli"]:
        write(codec, compression=codec)
    write("zstd_v2", compression="zstd", use_dictionary=False, data_page_version="2.0", data_page_size=300, write_batch_size=2)
    write("delta", use_dictionary=False, column_encoding={"image.bytes": "DELTA_LENGTH_BYTE_ARRAY"})
    # The labels are names, by dictionary and plain; in `text_empty` row 4 has an empty one.
    texts = [TEXTS[n % 3] for n in range(12)]
    write("text", labels=texts, label_type=pa.string(), compression="none")
    write("text_plain", labels=texts, label_type=pa.string(), use_dictionary=False, data_page_version="2.0")
    write("text_empty", labels=["" if n == 4 else texts[n] for n in range(12)], label_type=pa.string())
    write("floats", labels=[float(label) for label in labels], label_type=pa.float64())


def classes():
    """By pyarrow: any number of labels for each image, a column for each class, as booleans, numbers and text."""
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([{"bytes": png(n), "path": None} for n in range(12)], image)
    even = pa.array([n % 2 == 0 for n in range(12)])
    third = [int(n % 3 == 0) for n in range(12)]
    owl = pa.array(["false"] * 12)
    changed = lambda row, value: [value if n == row else own for n, own in enumerate(third)]

    def write(name, third, more={}, **options):
        columns = {"image": images, "even": even, "third": third, "owl": owl} | more
        pq.write_table(pa.table(columns), OUT / f"{name}.parquet", **(dict(row_group_size=7, store_schema=False) | options))

    write("classes", pa.array(third, pa.int8()))
    # Here booleans are runs.
    write("classes_v2", pa.array(third, pa.int64()), data_page_version="2.0")
    write("classes_two", pa.array(changed(8, 2)))
    write("classes_null", pa.array(changed(8, None)))
    write("classes_maybe", pa.array([str(value) for value in changed(8, "maybe")]))
    write("classes_float", pa.array(third, pa.float32()))
    write("classes_list", pa.array(third), {"sizes": pa.array([[1, 2]] * 12)})
    write("classes_bar", pa.array(third), {"a|b": pa.array(third)})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    hub()
    variants()
    classes()


if __name__ == "__main__":
    main()
