"""`torch.functional`: functions over several operators, and the package's operators besides."""

import flambeau

__all__ = [
    "broadcast_tensors",
    "cartesian_prod",
    "einsum",
    "meshgrid",
    "tensordot",
    "unique",
    "unique_consecutive",
]


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(flambeau, name)


def _as_list(tensors):
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


def broadcast_tensors(*tensors):
    """All tensors with the sizes that they broadcast to. Errors: RuntimeError when they do not."""
    tensors = _as_list(tensors)
    rank = max((t.dim() for t in tensors), default=0)
    sizes = [1] * rank
    for t in tensors:
        for i, n in enumerate(t.shape):
            d = rank - t.dim() + i
            if sizes[d] != n and n != 1:
                if sizes[d] != 1:
                    raise RuntimeError(
                        f"The size of tensor a ({sizes[d]}) must match the size of tensor b ({n}) "
                        f"at non-singleton dimension {d}"
                    )
                sizes[d] = n
    return tuple(t.expand(sizes) for t in tensors)


def meshgrid(*tensors, indexing=None):
    """Grids [n1, n2, ...] of the coordinates given by 1-d (or 0-d) tensors.

    indexing "ij" (the default) varies the first tensor along the first dim, "xy" along the second.
    """
    tensors = _as_list(tensors)
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: ' + str(indexing)
        )
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in tensors:
        if t.dim() > 1:
            raise RuntimeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got a tensor with "
                f"{t.dim()} dims"
            )
        if t.dtype != tensors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swaps = indexing == "xy" and len(tensors) >= 2
    if swaps:
        tensors[0], tensors[1] = tensors[1], tensors[0]
    sizes = [t.numel() for t in tensors]
    grids = []
    for d, t in enumerate(tensors):
        shape = [1] * len(tensors)
        shape[d] = sizes[d]
        grids.append(t.reshape(shape).expand(sizes))
    if swaps:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(*tensors):
    """All combinations [n, k] of the elements of k 1-d tensors; of one tensor itself."""
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    return flambeau.stack([g.reshape(-1) for g in grids], 1)


def tensordot(a, b, dims=2, out=None):
    """Sum over products along dims: the last `dims` of a with the first of b, or two lists."""
    if isinstance(dims, flambeau.Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got {dims} > {a.dim()}, {b.dim()}"
            )
        left, right = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    left, right = [d % a.dim() for d in left], [d % b.dim() for d in right]
    for i, j in zip(left, right):
        if a.shape[i] != b.shape[j]:
            if 1 not in (a.shape[i], b.shape[j]):
                raise RuntimeError(
                    f"contracted dimensions need to match, but first has size {a.shape[i]} in dim "
                    f"{i} and second has size {b.shape[j]} in dim {j}"
                )
            # A size of 1 is repeated: the other side is summed first.
            if a.shape[i] == 1:
                b = b.sum(j, keepdim=True)
            else:
                a = a.sum(i, keepdim=True)
    rows = [d for d in range(a.dim()) if d not in left]
    columns = [d for d in range(b.dim()) if d not in right]
    shape = [a.shape[d] for d in rows] + [b.shape[d] for d in columns]
    inner = 1
    for d in left:
        inner *= a.shape[d]
    count = 1
    for d in rows:
        count *= a.shape[d]
    x = a.permute(rows + left).reshape(count, inner)
    y = b.permute(right + columns).reshape(inner, -1 if inner else _count(b, columns))
    result = (x @ y).reshape(shape)
    return result if out is None else flambeau.mul(result, 1, out=out)


def _count(t, dims):
    n = 1
    for d in dims:
        n *= t.shape[d]
    return n


def _labels(term, rank, position):
    """One label for each dim; those of an ellipsis are numbers from the last one, -1, -2, ..."""
    if "..." in term:
        before, after = term.split("...")
        hidden = rank - len(before) - len(after)
        if hidden < 0:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(before + after)}) is "
                f"more than the number of dimensions ({rank}) for operand {position}"
            )
        return list(before) + [-i for i in range(hidden, 0, -1)] + list(after)
    if len(term) != rank:
        relation = "more" if len(term) > rank else "less"
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(term)}) is {relation} than "
            f"the number of dimensions ({rank}) for operand {position}"
        )
    return list(term)


def _diagonals(t, labels):
    """Repeated labels of one operand are a diagonal."""
    labels = list(labels)
    for label in set(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if t.shape[i] != t.shape[j]:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand but the sizes don't "
                    f"match, {t.shape[i]} != {t.shape[j]}"
                )
            t = t.diagonal(0, i, j)
            del labels[j], labels[i]
            labels.append(label)
    return t, labels


def _contract(a, left, b, right, kept):
    """The product of two operands, summed over labels that are not kept; and its labels."""

    def only(t, labels, others):
        drop = [i for i, x in enumerate(labels) if x not in kept and x not in others]
        return (t.sum(drop).to(t.dtype) if drop else t), [
            x for i, x in enumerate(labels) if i not in drop
        ]

    a, left = only(a, left, right)
    b, right = only(b, right, left)
    shared = [x for x in left if x in right]
    size = {}
    for labels, t in ((left, a), (right, b)):
        for x, n in zip(labels, t.shape):
            if size.get(x, 1) == 1:
                size[x] = n
    batch = [x for x in shared if x in kept]
    inner = [x for x in shared if x not in kept]
    rows = [x for x in left if x not in right]
    columns = [x for x in right if x not in left]

    def arranged(t, labels, order, groups):
        t = t.permute([labels.index(x) for x in order]).expand([size[x] for x in order])
        return t.reshape([_product(size[x] for x in group) for group in groups])

    x = arranged(a, left, batch + rows + inner, (batch, rows, inner))
    y = arranged(b, right, batch + inner + columns, (batch, inner, columns))
    labels = batch + rows + columns
    return flambeau.bmm(x, y).reshape([size[x] for x in labels]), labels


def _product(numbers):
    n = 1
    for k in numbers:
        n *= k
    return n


def einsum(equation, *operands):
    """Sums of products along labelled dims, e.g. "bik,bkj->bij".

    Labels that the output lacks are summed, repeated ones of an operand are its diagonal, an
    ellipsis stands for dims that broadcast. Without "->" the output has the labels that occur once,
    in alphabetical order. Operands are contracted from left to right.
    Errors: RuntimeError for labels and sizes that do not fit.
    """
    if not isinstance(equation, str):
        # The other form: operand, list of numbers, ..., list of numbers of the output.
        parts = [equation, *operands]
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

        def text(numbers):
            return "".join("..." if n is Ellipsis else letters[n] for n in numbers)

        terms = ",".join(text(p) for p in parts[1::2])
        if len(parts) % 2:
            terms = ",".join(text(p) for p in parts[1:-1:2]) + "->" + text(parts[-1])
            parts = parts[:-1]
        return einsum(terms, *parts[0::2])
    operands = _as_list(operands)
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    equation = equation.replace(" ", "")
    terms, arrow, output = equation.partition("->")
    terms = terms.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(
            f"einsum(): {'more' if len(operands) > len(terms) else 'fewer'} operands were provided "
            "than specified in the equation"
        )
    for character in equation.replace("...", "").replace("->", "").replace(",", ""):
        if not character.isalpha():
            raise RuntimeError(
                f"einsum(): invalid subscript given: {character}, subscripts must be in [a-zA-Z]"
            )
    dtype = operands[0].dtype
    for t in operands[1:]:
        dtype = flambeau.promote_types(dtype, t.dtype)
    inputs = []
    for i, (term, t) in enumerate(zip(terms, operands)):
        inputs.append(_diagonals(t, _labels(term, t.dim(), i)))
    seen = [x for _, labels in inputs for x in labels]
    hidden = sorted({x for x in seen if isinstance(x, int)})
    if arrow:
        letters = output.replace("...", "")
        for x in letters:
            if x not in seen:
                raise RuntimeError(
                    f"einsum(): output subscript {x} does not appear in the equation for any input "
                    "operand"
                )
            if letters.count(x) > 1:
                raise RuntimeError(
                    f"einsum(): output subscript {x} appears more than once in the output"
                )
        before, dots, after = output.partition("...")
        wanted = list(before) + (hidden if dots else []) + list(after)
    else:
        counted = "".join(terms).replace("...", "")
        wanted = hidden + sorted(x for x in set(counted) if counted.count(x) == 1)
    sizes = {}
    for t, labels in inputs:
        for x, n in zip(labels, t.shape):
            if sizes.setdefault(x, n) != n and n != 1:
                if sizes[x] != 1:
                    raise RuntimeError(
                        f"einsum(): subscript {x} has size {n} for operand which does not "
                        f"broadcast with previously seen size {sizes[x]}"
                    )
                sizes[x] = n
    result, labels = inputs[0]
    for i in range(1, len(inputs)):
        later = {x for _, more in inputs[i + 1 :] for x in more}
        kept = set(wanted) | later
        result, labels = _contract(
            result.to(dtype), labels, inputs[i][0].to(dtype), inputs[i][1], kept
        )
    drop = [i for i, x in enumerate(labels) if x not in wanted]
    if drop:
        result = result.sum(drop)
    labels = [x for i, x in enumerate(labels) if i not in drop]
    return result.permute([labels.index(x) for x in wanted])


def _row_order(rows):
    """Positions that sort the rows [n, k] by their elements, first ones first."""
    order = flambeau.arange(rows.shape[0])
    for column in range(rows.shape[1] - 1, -1, -1):
        order = order[rows[order, column].argsort(stable=True)]
    return order


def _groups(rows):
    """For ordered rows [n, k]: where a new value begins, [n] bool."""
    begins = flambeau.ones(rows.shape[0], dtype=flambeau.bool)
    if rows.shape[0] > 1:
        begins[1:] = (rows[1:] != rows[:-1]).any(1)
    return begins


def _unique(input, dim, ordered, return_inverse, return_counts):
    if dim is None:
        rows, shape = input.reshape(-1, 1), input.shape
    else:
        moved = input.movedim(dim, 0)
        rows, shape = moved.reshape(moved.shape[0], -1), (moved.shape[0],)
        if 0 in moved.shape[1:] and moved.shape[0]:
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
                "applied"
            )
    order = _row_order(rows) if ordered else flambeau.arange(rows.shape[0])
    rows = rows[order]
    begins = _groups(rows)
    numbers = begins.long().cumsum(0) - 1
    values = rows[begins]
    if dim is None:
        values = values.reshape(-1)
    else:
        values = values.reshape(-1, *moved.shape[1:]).movedim(0, dim)
    results = [values]
    if return_inverse:
        inverse = flambeau.empty_like(numbers)
        inverse[order] = numbers
        results.append(inverse.reshape(shape))
    if return_counts:
        count = int(begins.sum())
        counts = flambeau.zeros(count, dtype=flambeau.int64)
        results.append(counts.scatter_add(0, numbers, flambeau.ones_like(numbers)))
    return results[0] if len(results) == 1 else tuple(results)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, ascending, or the different slices along `dim`.

    With return_inverse also the number of each element's value, with return_counts how often each
    value occurs, both int64.
    """
    return _unique(input, dim, True, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements, or slices along `dim`, without repetitions of the one before."""
    return _unique(input, dim, False, return_inverse, return_counts)
