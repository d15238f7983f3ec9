"""What newer Python, NumPy, SciPy and scikit-learn no longer have, put back for scripts of 2016 to 2022.

Both sides run with this folder on ``PYTHONPATH``, so that a script fails for what its framework lacks and
not for its age. Data sets that scikit-learn would download are read from the generated files.
"""

import builtins
import collections
import collections.abc
import importlib.abc
import importlib.machinery
import io
import os
import pickle
import queue
import sys
import time
import urllib.parse
import urllib.request

time.clock = time.perf_counter
for _name in ("Callable", "Iterable", "Mapping", "MutableMapping", "Sequence"):
    setattr(collections, _name, getattr(collections.abc, _name))
for _name in ("urlopen", "urlretrieve"):
    setattr(urllib, _name, getattr(urllib.request, _name))
urllib.quote = urllib.parse.quote
sys.modules.setdefault("urllib2", urllib.request)
sys.modules.setdefault("cPickle", pickle)
sys.modules.setdefault("Queue", queue)
sys.modules.setdefault("StringIO", io)
builtins.xrange, builtins.unicode, builtins.raw_input = range, str, input


def _numpy(numpy):
    for name in ("int", "float", "bool", "object"):
        if name not in vars(numpy):
            setattr(numpy, name, getattr(builtins, name))
    text = numpy.fromstring

    def fromstring(string, dtype=float, count=-1, *, sep="", **rest):
        if sep:
            return text(string, dtype=dtype, count=count, sep=sep, **rest)
        return numpy.frombuffer(string, dtype=dtype, count=count).copy()

    numpy.fromstring = fromstring


def _datasets(datasets):
    import gzip

    import numpy

    def read(folder, name, skip):
        with gzip.open(os.path.join(folder, name), "rb") as file:
            return numpy.frombuffer(file.read(), numpy.uint8, offset=skip)

    def fetch(*_, **__):
        folder = os.environ["GENERATED_DATA"]
        images = [read(folder, f"{name}-images-idx3-ubyte.gz", 16) for name in ("train", "t10k")]
        labels = [read(folder, f"{name}-labels-idx1-ubyte.gz", 8) for name in ("train", "t10k")]
        # scripts cut MNIST at 60,000 of its 70,000 records
        wanted = numpy.resize(numpy.concatenate(labels), 70000)
        pixels = numpy.resize(numpy.concatenate(images).reshape(-1, 784), (70000, 784))
        return datasets._base.Bunch(data=pixels, target=wanted.astype(numpy.float64))

    datasets.fetch_mldata = fetch
    datasets.fetch_openml = fetch


def _pandas(pandas):
    pandas.DataFrame.as_matrix = pandas.DataFrame.to_numpy
    read = pandas.read_pickle

    def read_pickle(*args, **settings):
        value = read(*args, **settings)  # the generated file is a dictionary, which every pandas reads
        return pandas.DataFrame(value) if isinstance(value, dict) else value

    pandas.read_pickle = read_pickle


_CHANGES = {"numpy": _numpy, "sklearn.datasets": _datasets, "pandas": _pandas}


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the ordinary finders find a module and changes it once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        change = _CHANGES.pop(name, None)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
