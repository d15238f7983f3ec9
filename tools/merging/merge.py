"""Merger of modules by subject: applies a plan to a tree, and refuses what would change behaviour.

    python merge.py TREE PLAN [--prune OUT]

A line of the plan: ``target.py <- a.py b.py | docstring | a.py:_old=_new ...`` with paths below src/netweave;
members may be written without the target's folder. --prune writes the plan without the members that do not fit.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

TREE = Path(sys.argv[1]).resolve()
PRUNE = Path(sys.argv[sys.argv.index("--prune") + 1]) if "--prune" in sys.argv else None
ROOT = TREE / "src" / "netweave"
HEAVY = {"torch", "onnxruntime", "h5py", "openvino", "django", "cv2", "PIL", "ninja", "lmdb", "tensorflow", "jax"}
CHILDREN = ["files/hdf5_child.py", "files/probe_child.py", "training/data/sources/hdf5_child.py",
            "formats/chainer/child.py", "formats/keras/child.py", "formats/pytorch/child.py"]
FROZEN = {*CHILDREN, "__init__.py", "__main__.py", "api/starting.py", "web/work/worker.py", "web/settings.py",
          "web/urls.py", "web/wsgi.py", "web/gunicorn.py", "web/models.py",
          "runtime/backends/torch/attention.py", "graph/ops/box_geometry.py", "runtime/backends/torch/detectors.py",
          "runtime/backends/torch/proposals.py", "runtime/backends/torch/regions.py"}
MOST = 700
TABLES = {"src/netweave/training/data/source.py": "netweave.training.data.sources",
          "src/netweave/training/data/writers/__init__.py": "netweave.training.data.writers",
          "src/netweave/training/__init__.py": "netweave.training"}
"""Files that name modules of a package by their last name."""


def name_of(path: str) -> str:
    return ".".join(("netweave/" + path).removesuffix(".py").removesuffix("/__init__").split("/"))


class Module:
    def __init__(self, path: str) -> None:
        self.path, self.name = path, name_of(path)
        self.stem = path.removesuffix("/__init__.py").removesuffix(".py").split("/")[-1]
        self.text = (ROOT / path).read_text()
        self.tree = ast.parse(self.text)
        self.lines = len(self.text.splitlines())
        self.starts = [0]
        for line in self.text.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.imports: list[tuple[ast.stmt, str]] = []  # kind: top, type, lazy
        self.removed: list[ast.stmt] = []
        self.bindings: dict[str, ast.stmt] = {}
        self.exports: list[str] | None = None
        body = self.tree.body
        self.doc = ast.get_docstring(self.tree, clean=True) or ""
        if self.doc:
            self.removed.append(body[0])
        top: set[int] = set()
        for node in body:
            if isinstance(node, ast.ImportFrom | ast.Import):
                top.add(id(node))
                self.removed.append(node)
                if not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                    self.imports.append((node, "top"))
            elif is_type_block(node):
                self.removed.append(node)
                for one in node.body:
                    top.add(id(one))
                    self.imports.append((one, "type"))
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                self.removed.append(node)
                try:
                    self.exports = list(ast.literal_eval(node.value))
                except ValueError:
                    self.exports = ["*computed*"]
            elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse:
                for one in node.body:  # imports, and aliases of types, which stay
                    if isinstance(one, ast.Import | ast.ImportFrom):
                        top.add(id(one))
                        self.removed.append(one)
                        self.imports.append((one, "type"))
                    else:
                        for name in names_bound(one):
                            self.bindings.setdefault(name, node)
            else:
                for one in names_bound(node):
                    self.bindings.setdefault(one, node)
        self.loops: set[str] = {n.id for loop in ast.walk(self.tree) if isinstance(loop, ast.For)
                                for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        self.locals: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in top:
                self.imports.append((node, "lazy"))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.arg):
                        self.locals.add(inner.arg)
                    elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                        self.locals.add(inner.id)
                    elif isinstance(inner, ast.FunctionDef) and inner is not node:
                        self.locals.add(inner.name)
            elif isinstance(node, ast.comprehension):
                self.locals |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column


def is_type_block(node: ast.stmt) -> bool:
    return (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse
            and all(isinstance(one, ast.Import | ast.ImportFrom) for one in node.body))


def names_bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    bound = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            bound.append(inner.id)
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef):
            bound.append(inner.name)
        elif isinstance(inner, ast.alias):
            bound.append((inner.asname or inner.name).split(".")[0])
    return bound


MODULES = {str(p.relative_to(ROOT)): None for p in sorted(ROOT.rglob("*.py"))}
MODULES = {path: Module(path) for path in MODULES}
BY_NAME = {m.name: m for m in MODULES.values()}


@functools.cache
def reexports(package: str) -> frozenset[str]:
    """Return the names that a package imports and that are no modules."""
    return frozenset(a.asname or a.name for node, _ in BY_NAME[package].imports if isinstance(node, ast.ImportFrom)
                     for a in node.names if f"{node.module}.{a.name}" not in BY_NAME or node.module != package)


def targets(node: ast.stmt) -> list[tuple[str, str | None, str]]:
    """Return (module, attribute or None, bound name) of each alias."""
    out = []
    for alias in node.names:
        if isinstance(node, ast.Import):
            out.append((alias.name, None, alias.asname or alias.name))
        elif f"{node.module}.{alias.name}" in BY_NAME and not (
            node.module in BY_NAME
            and (alias.name in BY_NAME[node.module].bindings or alias.name in reexports(node.module))
        ):
            out.append((f"{node.module}.{alias.name}", None, alias.asname or alias.name))
        else:
            out.append((node.module, alias.name, alias.asname or alias.name))
    return out


EDGES: dict[str, set[str]] = defaultdict(set)  # all but type checking
TOP: dict[str, set[str]] = defaultdict(set)
OUTSIDE: dict[str, set[str]] = defaultdict(set)
for m in MODULES.values():
    for node, kind in m.imports:
        for module, _, _ in targets(node):
            if module in BY_NAME:
                if kind != "type" and module != m.name:
                    EDGES[m.name].add(module)
                    if kind == "top":
                        TOP[m.name].add(module)
            elif kind == "top" and module:
                OUTSIDE[m.name].add(module.split(".")[0])


def closure(name: str) -> set[str]:
    seen, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one in seen or one not in BY_NAME:
            continue
        seen.add(one)
        todo += TOP[one]
        while "." in one:
            one = one.rpartition(".")[0]
            todo.append(one)
    return seen


def loaded(script: str) -> set[str]:
    script = f"import sys\ntry:\n  {script}\nexcept SystemExit: pass\nprint('\\n@'.join(['', *sys.modules]))"
    out = subprocess.run([str(TREE / ".venv/bin/python") if (TREE / ".venv").exists() else sys.executable, "-c", script],
                         capture_output=True, text=True, env={"PYTHONPATH": str(TREE / "src"), "PATH": "/usr/bin:/bin"})
    return {line[1:] for line in out.stdout.splitlines() if line.startswith("@")}


STARTUP = [loaded("import netweave"), loaded("import netweave.cli"),
           loaded("sys.argv = ['netweave', '--help']; import netweave.cli; netweave.cli.main()")]
assert "netweave.cli" in STARTUP[1], "the tree does not start"
IN_CHILD = [closure(name_of(path)) for path in CHILDREN if path in MODULES]
WEIGHT = {}
for m in MODULES.values():
    reach = closure(m.name)
    WEIGHT[m.name] = (tuple(m.name in s for s in STARTUP + IN_CHILD),
                      tuple(sorted(HEAVY & set().union(*(OUTSIDE[one] for one in reach)))))


class Group:
    def __init__(self, line: str) -> None:
        plan, doc, *rest = [part.strip() for part in line.split("|")]
        self.target, members = (part.strip() for part in plan.split("<-"))
        self.doc = doc
        folder = self.target.rpartition("/")[0]
        self.members = []
        for one in members.split():
            one = one if one.endswith(".py") else f"{one}.py"
            if f"{folder}/{one}" in MODULES:
                one = f"{folder}/{one}"
            if one in MODULES:
                self.members.append(one)
            else:
                print(f"absent: {one} of {self.target}")
        self.renames: dict[tuple[str, str], str] = {}
        for one in (rest[0].split() if rest else []):
            path, _, change = one.partition(":")
            old, _, new = change.partition("=")
            self.renames[path if path in MODULES else f"{folder}/{path}", old] = new
        self.given = dict(self.renames)

    def line(self) -> str:
        folder = self.target.rpartition("/")[0] + "/"
        short = lambda p: p.removeprefix(folder).removesuffix(".py") if p.startswith(folder) else p
        text = f"{self.target} <- {' '.join(short(m) for m in self.members)} | {self.doc}"
        if self.given:
            text += " | " + " ".join(f"{short(p)}.py:{o}={n}" for (p, o), n in self.given.items())
        return text

    def modules(self) -> list[Module]:
        return [MODULES[one] for one in self.members]


def origin_of(group: Group, module: str, attribute: str | None) -> str:
    return f"{module}:{attribute}"


def problem(group: Group) -> tuple[str, str] | None:
    """Return a member that does not fit, and why; work out the renames."""
    mods = group.modules()
    inside = {m.name: m for m in mods}
    frozen = [m for m in mods if m.path in FROZEN]
    if frozen:
        return frozen[0].path, "is started or listed by path"
    if (group.target not in group.members) and ((ROOT / group.target).exists()):
        return group.members[-1], "target is there"
    depth = group.target.count("/")
    for m in mods:
        if "__file__" in m.text and m.path.count("/") != depth:
            return m.path, "__file__ at another depth"
        if m.path.endswith("/__init__.py") and group.target != m.path:
            left = [p for p in MODULES if p.startswith(m.path[: -len("__init__.py")]) and p not in group.members]
            if left:
                return m.path, f"package keeps {left[:3]}"
        if m.exports == ["*computed*"] or ("__getattr__" in m.bindings and len(mods) > 1):
            return m.path, "is loaded lazily"
    by_weight: dict[object, int] = defaultdict(int)
    for m in mods:
        by_weight[WEIGHT[m.name]] += m.lines
    if len(by_weight) > 1:
        best = max(by_weight, key=lambda w: by_weight[w])
        other = next(m for m in mods if WEIGHT[m.name] != best)
        kept = next(m for m in mods if WEIGHT[m.name] == best)
        return other.path, f"import weight {WEIGHT[other.name]} against {best} of {kept.path}"
    size = sum(m.lines - 8 for m in mods) + 10
    if size > MOST:
        return min(mods, key=lambda m: m.lines).path, f"{size} lines"
    group.renames = dict(group.given)
    group.dropped: set[tuple[str, str]] = set()
    owners: dict[str, list[Module]] = defaultdict(list)
    for m in mods:
        for bound in m.bindings:
            owners[group.renames.get((m.path, bound), bound)].append(m)
    imported: dict[str, set[str]] = defaultdict(set)
    importers: dict[str, Module] = {}
    for m in mods:
        for node, kind in m.imports:
            for module, attribute, bound in targets(node):
                if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
                    return m.path, "star import"
                if module in inside:
                    if kind == "lazy" and isinstance(node, ast.Import):
                        return m.path, "lazy import of a member"
                    if attribute is None:
                        uses = [n for n in ast.walk(m.tree) if isinstance(n, ast.Name) and n.id == bound]
                        attrs = [n for n in ast.walk(m.tree)
                                 if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == bound]
                        if len(uses) != len(attrs) or bound in m.locals:
                            return m.path, f"uses module {bound} as a value"
                        if any(n.attr in m.locals or n.attr in m.bindings for n in attrs):
                            return m.path, f"hides a name of {bound}"
                    else:
                        if attribute not in inside[module].bindings:
                            return m.path, f"{attribute} passes through {module}"
                        if bound != attribute and (bound in m.locals or attribute in m.locals or attribute in m.bindings):
                            return m.path, f"alias {bound}"
                elif kind != "lazy":
                    imported[bound].add(f"{module}:{attribute}")
                    importers[bound] = m
    for bound, origins in imported.items():
        shadowed = next((m for m in mods if bound in m.loops), None)
        if shadowed:
            return importers[bound].path, f"{bound} is a loop's variable in {shadowed.path}"
        if len(origins) > 1:
            return importers[bound].path, f"{bound} is imported from {sorted(origins)}"
        if bound in owners:
            clash = owners[bound][0]
            if bound.startswith("_") or len(owners[bound]) > 1:
                return clash.path, f"{bound} is imported and defined"
            return min((clash, importers[bound]), key=lambda m: m.lines).path, f"{bound} imported and defined"
    for bound, where in owners.items():
        if len(where) > 1 and bound != "_":
            if len({ast.dump(m.bindings[bound]) for m in where if bound in m.bindings}) == 1:
                node = where[0].bindings[bound]
                if len(names_bound(node)) == 1 or isinstance(node, ast.FunctionDef | ast.ClassDef):
                    group.dropped |= {(m.path, bound) for m in where}
                    continue
            for m in where:
                if not bound.startswith("_") or bound.startswith("__") or isinstance(m.bindings[bound], ast.ClassDef):
                    return min(where, key=lambda m: m.lines).path, f"{bound} is defined twice"
                if bound in m.locals:
                    return m.path, f"{bound} is local too"
                singular = m.stem
                new = f"_{singular.upper()}{bound}" if bound.isupper() else f"{bound}_{singular}"
                if new in owners or new in m.locals:
                    return m.path, f"{new} is there"
                group.renames[m.path, bound] = new
        if hasattr(builtins, bound) and bound != "__doc__":
            return where[0].path, f"{bound} hides a builtin"
    # equal text means equal code only if what it calls is the same
    for path, bound in group.dropped:
        node = MODULES[path].bindings[bound]
        called = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if any((path, one) in group.renames for one in called):
            return path, f"{bound} is equal in text only"
    # a private name that is read as an attribute of its module elsewhere is followed; a class's is not
    order: list[Module] = []
    todo = list(mods)
    while todo:
        ready = [m for m in todo if not (TOP[m.name] & {o.name for o in todo if o is not m})]
        if not ready:
            return todo[-1].path, "members import each other"
        order.append(ready[0])
        todo.remove(ready[0])
    group.order = order
    return None


def sibling_cycle(groups: list[Group]) -> tuple[Group, str, str] | None:
    new = {name: name for name in BY_NAME}
    owner: dict[str, Group] = {}
    for g in groups:
        for m in g.modules():
            new[m.name] = name_of(g.target)
        owner[name_of(g.target)] = g
    graph: dict[str, dict[tuple[str, str], tuple[str, str]]] = defaultdict(dict)
    for source, ends in EDGES.items():
        for end in ends:
            a, b = new[source].split("."), new[end].split(".")
            i = 0
            while i < min(len(a), len(b)) and a[i] == b[i]:
                i += 1
            if i < min(len(a), len(b)):
                graph[".".join(a[:i])][a[i], b[i]] = (source, end)
    for package, edges in graph.items():
        succ: dict[str, set[str]] = defaultdict(set)
        for a, b in edges:
            succ[a].add(b)
        for start in sorted(succ):
            before, todo = {start: None}, [start]
            while todo:
                one = todo.pop(0)
                for nxt in sorted(succ[one]):
                    if nxt == start:
                        path = [one]
                        while before[path[-1]] is not None:
                            path.append(before[path[-1]])
                        path = path[::-1] + [start]
                        steps = [edges[x, y] for x, y in zip(path, path[1:])]
                        best = []
                        for i, name in enumerate(path[:-1]):
                            into, out = steps[i - 1][1], steps[i][0]
                            if into != out:
                                for end in (into, out):
                                    g = next((g for g in groups if any(m.name == end for m in g.modules())), None)
                                    if g:
                                        best.append((BY_NAME[end].lines, end, g))
                        if best:
                            _, end, g = min(best, key=lambda t: t[0])
                            return g, BY_NAME[end].path, f"cycle in {package}: {path} by {steps}"
                        return None  # there before
                    if nxt not in before:
                        before[nxt] = one
                        todo.append(nxt)
    return None


def read_plan() -> list[Group]:
    lines = [line.strip() for line in Path(sys.argv[2]).read_text().splitlines()]
    groups = [Group(line) for line in lines if line and not line.startswith("#")]
    seen: dict[str, str] = {}
    for g in groups:
        for one in g.members:
            if one in seen:
                raise SystemExit(f"{one} is in {g.target} and in {seen[one]}")
            seen[one] = g.target
    refused = False
    again = True
    while again:
        again = False
        for g in list(groups):
            while len(g.members) > 1 and (bad := problem(g)):
                print(f"{g.target}: {bad[0]}: {bad[1]}")
                refused = True
                g.members.remove(bad[0])
            if len(g.members) < 2 and not (len(g.members) == 1 and g.members[0] != g.target and not problem(g)):
                groups.remove(g)
            elif g.target not in MODULES and len(g.members) == 1:
                groups.remove(g)
        while cycle := sibling_cycle(groups):
            g, path, why = cycle
            print(f"{g.target}: {path}: {why}")
            refused = again = True
            g.members.remove(path)
            g.given = {k: v for k, v in g.given.items() if k[0] != path}
            if len(g.members) < 2:
                groups.remove(g)
    for g in groups:
        if not g.members or (len(g.members) > 1 and problem(g)):
            raise SystemExit(f"{g.target}: cannot")
    if PRUNE:
        PRUNE.write_text("".join(f"{g.line()}\n" for g in groups))
    elif refused:
        raise SystemExit("refused; see above")
    return groups


def apply(data: bytes, edits: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return data.decode()


def name_edits(m: Module, changes: dict[str, str]) -> list[tuple[int, int, str]]:
    edits = []
    for node in ast.walk(m.tree):
        if isinstance(node, ast.Name) and node.id in changes:
            edits.append((m.at(node.lineno, node.col_offset), m.at(node.end_lineno, node.end_col_offset), changes[node.id]))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in changes and node in m.tree.body:
            line = m.starts[node.lineno - 1]
            at = m.text.encode().index(node.name.encode(), line + node.col_offset + 4)
            edits.append((at, at + len(node.name.encode()), changes[node.name]))
        elif isinstance(node, ast.Global):
            assert not set(node.names) & set(changes), f"{m.path}: global {node.names}"
    return edits


def whole_lines(m: Module, node: ast.stmt) -> tuple[int, int]:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return m.starts[first - 1], m.starts[node.end_lineno]


def spelled(m: Module, node: ast.stmt, kept: list[ast.alias]) -> list[str]:
    source = m.text.encode()[slice(*whole_lines(m, node))].decode()
    note = re.search(r"#.*", source)
    tail = f"  {note.group()}" if note else ""
    return [ast.unparse(type(node)(names=[a], **({"module": node.module, "level": 0} if isinstance(node, ast.ImportFrom) else {}))) + tail
            for a in kept]


def merged(group: Group) -> str:
    inside = {m.name for m in group.modules()}
    imports: dict[str, str] = {}
    types: dict[str, str] = {}
    bodies, exports, dropped = [], [], set()
    everything = any(m.exports is not None for m in group.modules())
    for m in group.order:
        changes = {old: new for (path, old), new in group.renames.items() if path == m.path}
        edits = [(*whole_lines(m, node), "") for node in m.removed]
        for node, kind in m.imports:
            kept = []
            for alias, (module, attribute, bound) in zip(node.names, targets(node), strict=True):
                if module not in inside:
                    kept.append(alias)
                elif attribute is None:
                    renamed = {old: new for (path, old), new in group.renames.items() if path == BY_NAME[module].path}
                    for n in ast.walk(m.tree):
                        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == bound:
                            edits.append((m.at(n.lineno, n.col_offset), m.at(n.end_lineno, n.end_col_offset),
                                          renamed.get(n.attr, n.attr)))
                else:
                    new = group.renames.get((BY_NAME[module].path, attribute), attribute)
                    if new != bound:
                        changes[bound] = new
            if kind == "lazy":
                if len(kept) < len(node.names):
                    start, end = whole_lines(m, node)
                    indent = " " * node.col_offset
                    lines = [indent + s + "\n" for s in spelled(m, node, kept)]
                    edits.append((start, end, "".join(lines)))
            else:
                for text in spelled(m, node, kept):
                    key = text.partition("  #")[0]
                    held = imports if kind == "top" else types
                    if key not in held or "#" in text:
                        held[key] = text
        for bound in [b for (path, b) in group.dropped if path == m.path]:
            if bound in dropped:
                start, end = whole_lines(m, m.bindings[bound])
                following = next((n for n in m.tree.body if n.lineno > m.bindings[bound].end_lineno), None)
                if isinstance(following, ast.Expr) and isinstance(getattr(following, "value", None), ast.Constant):
                    end = m.starts[following.end_lineno]  # the docstring of a constant
                edits.append((start, end, ""))
            dropped.add(bound)
        cuts = [(s, e) for s, e, new in edits if new == "" and e > s]
        for edit in name_edits(m, changes):
            if not any(s <= edit[0] < e for s, e in cuts):
                edits.append(edit)
        edits = [x for x in set(edits) if x[2] == "" or not any(s <= x[0] < e for s, e in cuts)]
        body = apply(m.text.encode(), edits).strip("\n")
        more = m.doc.partition("\n")[2].strip()
        if "\n\n" not in m.doc and more:  # a first sentence of two lines
            more = ""
        elif more:
            more = m.doc.partition("\n\n")[2].strip()
        if more:
            paragraphs = [" ".join(p.split()) if not re.search(r"^\s|^[-*>]", p, re.M) else p for p in more.split("\n\n")]
            comment = "\n#\n".join("\n".join("# " + line for line in (textwrap.wrap(p, 106) if "\n" not in p else p.splitlines())) for p in paragraphs)
            body = f"{comment}\n\n{body}"
        bodies.append(body)
        if everything:
            exports += m.exports if m.exports is not None else [b for b in m.bindings if not b.startswith("_")]
    defined = {group.renames.get((m.path, b), b) for m in group.modules() for b in m.bindings}
    doc = group.doc if group.doc.endswith(".") else f"{group.doc}."
    if len(doc) > 104:
        doc = "\n".join(textwrap.wrap(doc, 106))
    head = f'"""{doc}"""\n\nfrom __future__ import annotations\n\n'
    types = {k: v for k, v in types.items() if k not in imports}
    head += "".join(f"{text}\n" for text in imports.values())
    if types:
        head += "\nif TYPE_CHECKING:\n" + "".join(f"    {text}\n" for text in types.values())
    if everything and (not set(exports) <= defined or group.target.endswith("__init__.py")):
        head += "\n__all__ = [\n" + "".join(f'    "{one}",\n' for one in sorted(set(exports))) + "]\n"
    return head + "\n\n" + "\n\n\n".join(bodies) + "\n"


def rewrite(path: Path, moved: dict[str, str], renames: dict[tuple[str, str], str]) -> None:
    """Follow the moved modules in a Python file: imports of modules, and renamed private names."""
    text = path.read_text()
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    at = lambda line, column: starts[line - 1] + column
    bound_anywhere = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
        n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} | {
        n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)} | {
        (a.asname or a.name) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom | ast.Import) for a in n.names}
    rebound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)} | {
        n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    edits, changes, attributes, fresh = [], {}, {}, {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("netweave"):
            if isinstance(node, ast.Import):
                for a in node.names:
                    if a.name in moved and a.asname:
                        attributes[a.asname] = a.name
            continue
        lines, touched, own = [], False, []
        for a, (module, attribute, bound) in zip(node.names, targets(node), strict=True):
            if attribute is None and module in moved:
                touched = touched or moved[module] != module
                attributes[bound] = module
                parent, _, stem = moved[module].rpartition(".")
                if a.asname:
                    lines.append(f"from {parent} import {stem} as {a.asname}" if a.asname != stem else f"from {parent} import {stem}")
                elif stem == bound:
                    lines.append(f"from {parent} import {stem}")
                elif (stem not in bound_anywhere or fresh.get(stem) == moved[module]) and bound not in rebound:
                    fresh[stem] = moved[module]
                    changes[bound] = stem
                    lines.append(f"from {parent} import {stem}")
                else:
                    lines.append(f"from {parent} import {stem} as {bound}")
            elif attribute is not None and (module, attribute) in renames:
                touched = True
                lines.append(f"from {module} import {renames[module, attribute]} as {bound}")
            else:
                own.append(a)
        if touched:
            indent = " " * node.col_offset
            if own:
                lines.insert(0, f"from {node.module} import " + ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in own))
            source = text.encode()[starts[node.lineno - 1]:starts[node.end_lineno]].decode()
            note = re.search(r"#.*", source)
            tail = f"  {note.group()}" if note else ""
            new = "".join(f"{indent}{line}{tail}\n" for line in dict.fromkeys(lines))
            edits.append((starts[node.lineno - 1], starts[node.end_lineno], new))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__" and isinstance(node.value, ast.List):
            words = [ast.literal_eval(one) for one in node.value.elts if isinstance(one, ast.Constant)]
            if set(words) & set(changes):
                new = sorted({changes.get(one, one) for one in words})
                edits.append((at(node.lineno, 0), starts[node.end_lineno], f"__all__ = {new!r}\n".replace("'", '"').replace("]\n", ",]\n")))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in changes:
            edits.append((at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset), changes[node.id]))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in attributes:
            if new := renames.get((attributes[node.value.id], node.attr)):
                edits.append((at(node.end_lineno, node.end_col_offset) - len(node.attr.encode()), at(node.end_lineno, node.end_col_offset), new))
        if (isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[0], ast.Name)
                and node.args[0].id in attributes and isinstance(node.args[1], ast.Constant)):
            if new := renames.get((attributes[node.args[0].id], node.args[1].value)):
                edits.append((at(node.args[1].lineno, node.args[1].col_offset), at(node.args[1].end_lineno, node.args[1].end_col_offset), f'"{new}"'))
    if edits:
        path.write_text(apply(text.encode(), list(set(edits))))


def main() -> None:
    groups = read_plan()
    count = len(MODULES)
    moved, paths, renames = {}, {}, {}
    for g in groups:
        for m in g.modules():
            moved[m.name] = name_of(g.target)
            paths[m.path] = g.target
            for (path, old), new in g.renames.items():
                renames[name_of(path), old] = new
    print(f"{len(groups)} targets of {len(moved)} modules: {count} -> {count - len(moved) + len(groups)} files")
    if PRUNE:
        return
    texts = {g.target: merged(g) for g in groups}
    for g in groups:
        for one in g.members:
            (ROOT / one).unlink()
    for folder in sorted({(ROOT / one).parent for g in groups for one in g.members}, reverse=True):
        if folder.is_dir() and not [p for p in folder.iterdir() if p.name != "__pycache__"]:
            for p in folder.rglob("*"):
                if p.is_file():
                    p.unlink()
            for p in sorted(folder.rglob("*"), reverse=True):
                p.rmdir()
            folder.rmdir()
    for target, text in texts.items():
        (ROOT / target).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / target).write_text(text)
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TREE, capture_output=True, text=True, check=True).stdout
    dotted = re.compile(r"\bnetweave(?:\.\w+)+")
    filed = re.compile(r"(?:\w+/)+\w+\.py\b")

    def change(match: re.Match[str]) -> str:
        words = match.group().split(".")
        for n in range(len(words), 1, -1):
            name = ".".join(words[:n])
            if name in moved:
                rest = [renames.get((name, words[n]), words[n]), *words[n + 1:]] if n < len(words) else []
                return ".".join([moved[name], *rest])
        return match.group()

    def change_path(match: re.Match[str]) -> str:
        whole = match.group()
        for prefix in ("src/netweave/", "netweave/", ""):
            if whole.startswith(prefix) and whole.removeprefix(prefix) in paths:
                return prefix + paths[whole.removeprefix(prefix)]
        return whole

    for one in tracked.splitlines():
        path = TREE / one
        if not path.is_file() or path.is_symlink() or path.stat().st_size > 2_000_000 or one == "CHANGELOG.md":
            continue
        if one.startswith("frontend/"):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if "netweave" not in text and ".py" not in text:
            continue
        if path.suffix == ".py" or text.startswith("#!/usr/bin/env python"):
            rewrite(path, moved, renames)
            text = path.read_text()
        if one in TABLES:
            for old, new in moved.items():
                parent, _, stem = old.rpartition(".")
                if parent == TABLES[one]:
                    text = re.sub(rf'(\(|module = )"{stem}"', rf'\1"{new.removeprefix(parent + ".")}"', text)
                    text = text.replace(f'"{old}"', f'"{new}"')
        new = filed.sub(change_path, dotted.sub(change, text))
        if new != path.read_text():
            path.write_text(new)
    ruff = TREE / ".venv/bin/ruff"
    for arguments in (["check", "-q", "--fix", "--select", "I,F401,F811,TC005", "."], ["format", "-q", "."], ["check", "-q", "--fix", "."], ["format", "-q", "."]):
        subprocess.run([ruff, *arguments], cwd=TREE, check=False)


main()
