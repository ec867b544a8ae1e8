"""Model files: what goes in comes out, and nothing else gets in."""

import io
import json
import os
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, EnclosingBall, LinearSVC, LinearSVCCV, ModelFileError, load_model, save_model
from maxmargin.estimators.persistence.model_file import FORMAT_VERSION, read_model
from maxmargin.solvers import SOLVERS, Decomposition, SublinearBall, Trace, Traces

# Fits are short on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
LABELS = {
    "numbers": np.array([-1.0, 1.0]),
    "float32": np.array([1, 2], dtype=np.float32),
    "integers": np.array([3, 2**40, -7]),
    "bytes of integers": np.array([1, 2], dtype=np.uint8),
    "booleans": np.array([False, True]),
    "strings": np.array(["no", "yes", "naïve"]),
    "objects": np.array(["cat", "dog"], dtype=object),
}


def fitted(labels=LABELS["numbers"], **options):
    y = labels[np.arange(60) % labels.size]
    X = RNG.normal(size=(60, 5)) + 2 * (np.arange(60) % labels.size)[:, None]
    return LinearSVC(
        **{"slack": 0.01, "solver": "simba", "max_iter": 1, "random_state": 0, "keep_dual": True, **options}
    ).fit(X, y)


@pytest.fixture
def path(tmp_path):
    """A good model file."""
    save_model(fitted(), tmp_path / "model.mm", notes={"data": "rows.csv", "seconds": 0.5})
    return tmp_path / "model.mm"


def same(a, b):
    """Whether two values are equal, with NaN equal to NaN."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Trace | Traces):
        return a == b
    if isinstance(a, np.ndarray | float):
        return (
            np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
            and np.asarray(a).dtype == np.asarray(b).dtype
        )
    return repr(a) == repr(b)


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keep_dual": False},
        {"certify": False},
        {"slack": None, "C": 0.5, "loss": "hinge", "solver": "auto"},
        {"early_stopping": True},
    ],
)
def test_everything_comes_back(tmp_path, labels, options):
    model = fitted(labels, **options)
    save_model(model, tmp_path / "m.mm")
    loaded = load_model(tmp_path / "m.mm")
    assert type(loaded) is LinearSVC
    assert loaded.get_params() == model.get_params()
    before = {k: v for k, v in vars(model).items() if k.endswith("_")}
    after = {k: v for k, v in vars(loaded).items() if k.endswith("_")}
    assert before.keys() == after.keys()
    assert [k for k in before if not same(before[k], after[k])] == []
    X = RNG.normal(size=(50, 5))
    assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    predicted = loaded.predict(X)
    assert predicted.tolist() == model.predict(X).tolist()
    assert predicted.dtype == labels.dtype
    with pytest.raises(AttributeError, match=r"training data is gone|has no dual variables"):
        _ = loaded.support_vectors_


@pytest.mark.parametrize("name", SOLVERS)
def test_solver_objects_and_other_parameters_come_back(tmp_path, name):
    model = fitted(slack=None, solver=SOLVERS[name](), max_time=np.float64(60), class_weight={1.0: 2.0, -1.0: 0.5})
    save_model(model, tmp_path / "m.mm")
    assert load_model(tmp_path / "m.mm").get_params() == model.get_params()


def support_vector_machine(classes=2, storage=np.asarray, **options):
    X, y = RNG.normal(size=(80, 5)), np.arange(80) % classes
    X = storage(X + 2 * y[:, None])
    return SVC(**{"C": 2.0, "random_state": 0, **options}).fit(X, y)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "linear", "solver": Decomposition(block=64)},
        {"kernel": "poly", "degree": 2, "coef0": 1.0, "multi_class": "ovr"},
        {"kernel": "sigmoid", "gamma": 0.01, "decision_function_shape": "ovo"},
        {"storage": sp.csr_array},
        {"storage": lambda X: sp.csr_array(X.astype(np.float32))},
        {"storage": lambda X: X.astype(np.float32), "certify": False, "class_weight": "balanced"},
    ],
    ids=["rbf", "linear", "poly", "sigmoid", "sparse", "sparse float32", "float32"],
)
def test_a_kernel_machine_comes_back(tmp_path, classes, options):
    model = support_vector_machine(classes, **options)
    save_model(model, tmp_path / "m.mm")
    loaded = load_model(tmp_path / "m.mm")
    assert type(loaded) is SVC
    assert loaded.get_params() == model.get_params()
    before, after = ({k: v for k, v in vars(m).items() if k.endswith("_")} for m in (model, loaded))
    assert before.keys() == after.keys()
    for name in before.keys() - {"support_vectors_"}:
        assert same(before[name], after[name]), name
    vectors = [m.support_vectors_ for m in (model, loaded)]
    assert vectors[0].dtype == vectors[1].dtype
    assert sp.issparse(vectors[0]) == sp.issparse(vectors[1])
    X = RNG.normal(size=(50, 5))
    assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert clone(loaded).fit(X, np.arange(50) % 2).score(X, np.arange(50) % 2) > 0


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nu": 0.1},
        {"nu": 0.1, "kernel": "rbf", "gamma": 0.3},
        {"kernel": "poly", "degree": 2, "max_iter": 2},
        {"kernel": "sigmoid"},
        {"solver": SublinearBall(eps=0.5), "max_iter": 20},
    ],
)
def test_a_ball_comes_back(tmp_path, options, storage):
    X = RNG.normal(size=(60, 4))
    model = EnclosingBall(random_state=0, **options).fit(storage(X))
    save_model(model, tmp_path / "m.mm")
    loaded = load_model(tmp_path / "m.mm")
    assert type(loaded) is EnclosingBall
    assert loaded.get_params() == model.get_params()
    before, after = ({k: v for k, v in vars(m).items() if k.endswith("_")} for m in (model, loaded))
    assert before.keys() == after.keys()
    for name in before.keys() - {"support_vectors_"}:
        assert same(before[name], after[name]), name
    assert sp.issparse(model.support_vectors_) == sp.issparse(loaded.support_vectors_)
    assert abs(model.support_vectors_ - loaded.support_vectors_).sum() == 0
    new = 2 * RNG.normal(size=(50, 4))
    assert loaded.decision_function(new).tobytes() == model.decision_function(new).tobytes()
    assert loaded.predict(new).tolist() == model.predict(new).tolist()
    assert clone(loaded).fit(new).radius_ > 0


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"kernel": None}, "do not go together"),
        ({"parameters": {"nu": 0.1}}, "do not go together"),
        ({"center_vectors": {"count": 10**9, "rows": {"type": "<f8", "stored": None}}}, "center_weights.npy has"),
        ({"vectors": {"type": "O", "stored": None}}, "vectors of the type"),
        ({"radius": "wide"}, "radius: expected a number"),
        ({"problems": []}, "0 problems and 1 traces; expected 1 of each"),
        ({"estimator": "SVC"}, "an object with"),
    ],
)
def test_a_header_of_a_ball_that_is_wrong_is_refused_in_words(tmp_path, fields, complaint):
    save_model(EnclosingBall(0.1, kernel="rbf").fit(RNG.normal(size=(60, 4))), tmp_path / "m.mm")
    edited(tmp_path / "m.mm", **fields)
    with pytest.raises(ModelFileError, match=complaint):
        load_model(tmp_path / "m.mm")


def test_a_model_is_not_read_from_a_pipe(path):
    read, write = os.pipe()
    with os.fdopen(read), os.fdopen(write, "wb") as file:
        file.write(b"PK")
        file.flush()
        with pytest.raises(ModelFileError, match="is a pipe"):
            load_model(f"/dev/fd/{read}")


def test_a_precomputed_kernel_comes_back_and_a_function_does_not(tmp_path):
    X, y = RNG.normal(size=(40, 3)), np.arange(40) % 2
    K = X @ X.T
    model = SVC(kernel="precomputed").fit(K, y)
    save_model(model, tmp_path / "m.mm")
    np.testing.assert_array_equal(load_model(tmp_path / "m.mm").decision_function(K), model.decision_function(K))
    with pytest.raises(ValueError, match=r"kernel is a function, which a model file cannot hold.*pickle"):
        save_model(SVC(kernel=lambda A, B: A @ B.T).fit(X, y), tmp_path / "f.mm")
    assert not (tmp_path / "f.mm").exists()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"kernel": {"name": "os", "fields": {}}}, "one of the kernels .*found 'os'"),
        ({"kernel": {"name": "rbf", "fields": {"gamma": -1}}}, "kernel 'rbf' cannot be made"),
        ({"kernel": {"name": "rbf", "fields": {"width": 1}}}, "kernel 'rbf' cannot be made"),
        ({"vectors": {"type": "O", "stored": None}}, "vectors of the type"),
        ({"vectors": {"type": "<f8", "stored": 3}}, "not expected in it"),
        ({"n_support": 3}, "support.npy"),
        ({"shape_fit": [3, 5]}, "not among the 3 training samples"),
        ({"shape_fit": [3]}, "a shape_fit of two numbers"),
        ({"parameters": {"multi_class": "ovr", "kernel": 3}}, "'kernel' parameter"),
        ({"parameters": {"solver": {"solver": "newton", "fields": {}}}}, "'newton' is not known"),
        ({"estimator": "LinearSVC"}, "an object with"),
    ],
)
def test_a_header_of_a_kernel_machine_that_is_wrong_is_refused_in_words(tmp_path, fields, complaint):
    path = tmp_path / "m.mm"
    save_model(support_vector_machine(), path)
    edited(path, **fields)
    with pytest.raises(ModelFileError, match=complaint):
        load_model(path)


def test_sparse_support_vectors_that_point_outside_themselves_are_refused(tmp_path):
    path = tmp_path / "m.mm"
    model = support_vector_machine(storage=sp.csr_array)
    save_model(model, path)
    parts = members(path)
    for name, change in (("indices", 9), ("indptr", 1000)):
        array = np.load(io.BytesIO(parts[f"vectors_{name}.npy"]))
        array[1] = change
        write(path, {**parts, f"vectors_{name}.npy": npy(array)})
        with pytest.raises(ModelFileError, match="not a sparse matrix"):
            load_model(path)
    write(path, {**parts, "n_support.npy": npy(model.n_support_ + np.array([1, 0], dtype=np.int32))})
    with pytest.raises(ModelFileError, match="which are not"):
        load_model(path)


def test_names_of_features_come_back(tmp_path):
    import pandas as pd

    X = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["width", "höhe"])
    model = LinearSVC(slack=0.2, solver="simba", max_iter=1).fit(X, np.arange(20) % 2)
    save_model(model, tmp_path / "m.mm")
    loaded = load_model(tmp_path / "m.mm")
    assert loaded.feature_names_in_.tolist() == ["width", "höhe"]
    assert (loaded.predict(X) == model.predict(X)).all()


def test_the_same_model_gives_the_same_bytes(tmp_path):
    model = fitted()
    for name in "ab":
        save_model(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_notes_come_back(path):
    assert read_model(path)[1] == {"data": "rows.csv", "seconds": 0.5}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: m.set_params(random_state=np.random.RandomState(0)), "random_state is a RandomState"),
        (lambda m: setattr(m, "classes_", np.array([b"a", b"b"])), "labels are"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_leaves_no_file(tmp_path, change, complaint):
    model = fitted()
    change(model)
    with pytest.raises(ValueError, match=complaint):
        save_model(model, tmp_path / "m.mm")
    assert list(tmp_path.iterdir()) == []


def test_other_estimators_are_refused(tmp_path):
    with pytest.raises(TypeError, match="LinearSVC, SVC, EnclosingBall; got dict"):
        save_model({}, tmp_path / "m.mm")


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (make_pipeline(StandardScaler(), SVC()), r"got Pipeline. Save the whole pipeline with joblib.dump\(pipeline"),
        (GridSearchCV(SVC(), {"C": [1, 2]}), r"got GridSearchCV. .*save_model\(search.best_estimator_, path\)"),
        (LinearSVCCV(Cs=2, cv=2), r"got LinearSVCCV. .*save_model\(search.best_estimator_, path\)"),
        (OneVsRestClassifier(LinearSVC()), r"got OneVsRestClassifier. Save it with joblib.dump\(model, path\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_to_do_with_other_estimators(tmp_path, model, advice):
    X, y = np.eye(20) + np.arange(20)[:, None] % 2, np.arange(20) % 2
    for each in (clone(model), model.fit(X, y)):
        with pytest.raises(TypeError, match=advice):
            save_model(each, tmp_path / "m.mm")
    assert list(tmp_path.iterdir()) == []
    if hasattr(model, "best_estimator_"):
        save_model(model.best_estimator_, tmp_path / "m.mm")


# Files that are not as they should be


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def edited(path, **fields):
    """Write the file again with other fields in its header; the word "absent" takes a field away."""
    parts = members(path)
    header = json.loads(parts["model.json"]) | fields
    parts["model.json"] = json.dumps({k: v for k, v in header.items() if v != "absent"})
    write(path, parts)


def test_editing_nothing_changes_nothing(path):
    edited(path)
    load_model(path)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"format": "another"}, "format is 'maxmargin model'"),
        ({"format": "absent"}, "format is 'maxmargin model'"),
        (
            {"format_version": FORMAT_VERSION + 1, "surprise": 1},
            f"in version {FORMAT_VERSION + 1} of the format.*upgrade",
        ),
        ({"format_version": "1"}, "count"),
        ({"estimator": "os.system"}, "LinearSVC, SVC, EnclosingBall; found 'os.system'"),
        ({"parameters": {"verbosity": 3}}, "unknown parameters: verbosity"),
        ({"parameters": {"C": -1.0}}, "'C' parameter"),
        ({"parameters": {"C": [1.0]}}, "parameters: expected a number"),
        ({"parameters": {"solver": {"solver": "nobody", "fields": {}}}}, "'nobody' is not known"),
        ({"parameters": {"solver": {"solver": "simba", "fields": {"legs": 4}}}}, "cannot be made"),
        ({"parameters": {"class_weight": {"items": [[1]]}}}, "pairs"),
        ({"classes": {"type": "float64", "values": [1.0]}}, "two or more"),
        ({"classes": {"type": "float64", "values": [1.0, 1.0]}}, "different labels"),
        ({"classes": {"type": "int8", "values": [1, 1000]}}, "1000"),
        ({"classes": {"type": "int8", "values": ["a", "b"]}}, "labels of the type int8"),
        ({"classes": {"type": "str", "values": [1, 2]}}, "labels of the type str"),
        ({"classes": {"type": "V8", "values": [1, 2]}}, "found 'V8'"),
        ({"classes": {"type": "float64", "values": [1.0, 2.0, 3.0]}}, "1 problems and 1 traces; expected 3 of each"),
        ({"n_features_in": 6}, "coef.npy"),
        ({"n_features_in": 2**60}, "coef.npy has .* bytes"),
        ({"n_features_in": 10**400}, "n_features_in: expected a count"),
        ({"n_features_in": True}, "n_features_in: expected a count"),
        ({"feature_names_in": ["a"]}, "1 names of 5 features"),
        ({"traces": [{"checks": 2**62, "tol": None}]}, "trace_"),
        ({"n_support": None}, "not expected in it: dual_coef.npy, support.npy"),
        ({"n_iter": -1}, "n_iter: expected a count; found -1"),
        ({"scale": "wide"}, "scale: expected a number"),
        ({"problems": [{}]}, "margin, slack"),
        ({"reads": "absent"}, "reads"),
        ({"notes": {"a": []}}, "notes"),
    ],
)
def test_a_header_that_is_wrong_is_refused_in_words(path, fields, complaint):
    edited(path, **fields)
    with pytest.raises(ModelFileError, match=complaint) as error:
        load_model(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("coef.npy", None, "expected in it: coef.npy"),
        ("model.json", None, "model.json is missing"),
        ("more.npy", b"", "not expected in it: more.npy"),
        ("model.json", b"{", "not JSON"),
        ("model.json", b"\xff", "not JSON"),
        ("model.json", b"[" * 100_000, "nested|not JSON"),
        ("model.json", b"[NaN]", "holds NaN"),
        ("coef.npy", npy(np.zeros((1, 5), dtype=np.float32)), "holds float32"),
        ("coef.npy", npy(np.zeros((5, 1))), r"shape \(5, 1\); expected float64 of shape \(1, 5\)"),
        ("coef.npy", npy(np.zeros((1, 5), dtype=">f8")), "holds >f8"),
        ("coef.npy", npy(np.zeros((1, 5)))[:-8] + b"", "bytes|more or fewer"),
        ("coef.npy", npy(np.zeros((1, 5))) + b"more", "more or fewer"),
        ("coef.npy", npy(np.array([["a" * 9] * 5], dtype=object), allow_pickle=True), "holds object"),
        ("coef.npy", pickle.dumps(list(range(100))), "damaged|magic"),
        ("coef.npy", npy(np.zeros((1, 5))).replace(b"(1, 5)", b"(9**9)"), "damaged"),
    ],
)
def test_members_that_are_wrong_are_refused_in_words(path, name, data, complaint):
    parts = members(path)
    if data is None:
        del parts[name]
    else:
        parts[name] = data
    write(path, parts)
    with pytest.raises(ModelFileError, match=complaint):
        load_model(path)


def test_a_huge_shape_in_an_array_is_refused_before_memory_is_taken(path):
    parts = members(path)
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 500000000000), }"
    parts["coef.npy"] = b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117) + b"\n" + bytes(40)
    write(path, parts)
    with pytest.raises(ModelFileError, match="500000000000"):
        load_model(path)


def test_a_compressed_bomb_is_refused(path):
    parts = members(path)
    parts["model.json"] = b" " * 10_000_000
    write(path, parts, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="compressed"):
        load_model(path)


@pytest.mark.parametrize("data", [b"", b"P", b"1 1:0.5\n", b"\x80\x04K\x01.", pickle.dumps([1])])
def test_a_foreign_file_is_refused(tmp_path, data):
    (tmp_path / "m.mm").write_bytes(data)
    with pytest.raises(ModelFileError, match=r"is not a model file.*starts with.*save_model"):
        load_model(tmp_path / "m.mm")


def test_another_zip_is_refused(tmp_path):
    np.savez(tmp_path / "m.npz", X=np.zeros(3))
    with pytest.raises(ModelFileError, match=r"model.json is missing; it holds \['X.npy'\]"):
        load_model(tmp_path / "m.npz")


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "none.mm")


def test_a_file_cut_off_anywhere_is_refused(path):
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=r"starts with|cut off"):
            load_model(path)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.mm"
    save_model(fitted(), path)
    return path, path.read_bytes(), load_model(path)


@given(data=st.data())
def test_flipped_bytes_are_noticed_or_do_no_harm(good, data):
    path, whole, model = good
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    damaged = path.with_name("damaged.mm")
    damaged.write_bytes(changed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            loaded = load_model(damaged)
        except ModelFileError:
            return
    # Some bytes of a zip archive, such as time stamps, mean nothing here.
    assert (loaded.coef_ == model.coef_).all()
    assert loaded.get_params() == model.get_params()


def test_every_byte_of_the_directory_may_be_wrong(good):
    path, whole, model = good
    damaged = path.with_name("damaged.mm")
    for at in range(whole.index(b"PK\1\2"), len(whole)):
        for value in (0, 255, whole[at] ^ 1):
            damaged.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                loaded = load_model(damaged)
            except ModelFileError:
                continue
            assert (loaded.coef_ == model.coef_).all()
