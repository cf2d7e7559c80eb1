/* Launches a kernel once more, if nothing but addresses and numbers changed since the first time.

   prepare(...) remembers what a launch looked like and gives a callable; called with
   (stream, grid, args, pdl, backend), that compares, writes the new values into the parameters'
   slots, and calls cuLaunchKernelEx.  It returns False, with nothing launched, where anything
   differs or the driver refuses: the caller then takes the long way, which says what is wrong.

   Tensors are read through DLPack's exchange table (dlpack.h 1.3), which makes no Python object. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define RANKS 8
#define PREPARED "tilewright.repeat"

typedef struct {
    int32_t type, id;
} Device;

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} Element;

typedef struct {
    void *data;
    Device device;
    int32_t rank;
    Element element;
    int64_t *shape, *strides;
    uint64_t offset;
} Tensor;

typedef int (*View)(void *object, Tensor *out);

typedef struct {
    struct {
        uint32_t major, minor;
    } version;
    void *older, *allocate, *from_python, *to_python;
    View view;
    void *stream;
} Exchange;

typedef int (*LaunchEx)(const void *config, void *function, void **params, void **extra);

typedef struct {
    char kind; /* t: a tensor, i: an int, f: a float, c: a constant */
    PyTypeObject *type;
    PyObject *value;
    uint64_t *slot;
    View view;
    Tensor first;
    int64_t sizes[2 * RANKS];
} Argument;

typedef struct {
    LaunchEx entry;
    const void *config;
    void *function;
    void **params;
    PyObject *keep, *stream, *handle, *grid, *pdl, *backend;
    Py_ssize_t count;
    Argument *arguments;
} Prepared;

static PyObject *handle_name;

/* A new reference to what tells streams apart: torch's are new objects each time. */
static PyObject *handle_of(PyObject *stream)
{
    PyObject *found = PyObject_GetAttr(stream, handle_name);
    if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        found = Py_NewRef(stream);
    }
    return found;
}

/* 1, 0, or -1 with an error. */
static int same(PyObject *a, PyObject *b)
{
    return a == b ? 1 : PyObject_RichCompareBool(a, b, Py_EQ);
}

static View view_of(PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    Exchange *table = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    View found = table && table->version.major == 1 ? table->view : NULL;
    Py_XDECREF(capsule);
    PyErr_Clear();
    return found;
}

static int read_tensor(Argument *a, PyObject *x, Tensor *out)
{
    if (a->view(x, out) != 0) {
        PyErr_Clear();
        return 0;
    }
    return out->strides != NULL && out->rank <= RANKS;
}

static uint64_t address(const Tensor *t)
{
    return (uint64_t)(uintptr_t)t->data + t->offset;
}

/* Whether a tensor is like the first one: all but its address, of which 16 bytes matter. */
static int alike(const Argument *a, const Tensor *t)
{
    const size_t bytes = sizeof(int64_t) * (size_t)t->rank;
    return t->rank == a->first.rank && !memcmp(&t->device, &a->first.device, sizeof(Device)) &&
           !memcmp(&t->element, &a->first.element, sizeof(Element)) &&
           (address(t) & 15) == (address(&a->first) & 15) &&
           !memcmp(t->shape, a->sizes, bytes) && !memcmp(t->strides, a->sizes + RANKS, bytes);
}

/* Writes one argument into its slot.  1, 0 where it differs, or -1 with an error. */
static int take(Argument *a, PyObject *x)
{
    if (Py_TYPE(x) != a->type)
        return 0;
    if (a->kind == 'c')
        return same(x, a->value);
    if (a->kind == 't') {
        Tensor t;
        if (!read_tensor(a, x, &t) || !alike(a, &t))
            return 0;
        *a->slot = address(&t);
    } else if (a->kind == 'i') {
        int overflow;
        long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
        if (overflow || value < INT32_MIN || value > INT32_MAX)
            return 0;
        int32_t narrow = (int32_t)value;
        memcpy(a->slot, &narrow, sizeof narrow);
    } else {
        float narrow = (float)PyFloat_AS_DOUBLE(x);
        memcpy(a->slot, &narrow, sizeof narrow);
    }
    return 1;
}

static int matches(Prepared *p, PyObject *const *in)
{
    if (in[3] != p->pdl || !PyTuple_CheckExact(in[2]) || PyTuple_GET_SIZE(in[2]) != p->count)
        return 0;
    int found = same(in[1], p->grid);
    if (found == 1)
        found = same(in[4], p->backend);
    if (found == 1 && in[0] != p->stream) {
        PyObject *handle = handle_of(in[0]);
        found = handle ? same(handle, p->handle) : -1;
        Py_XDECREF(handle);
    }
    for (Py_ssize_t i = 0; found == 1 && i < p->count; i++)
        found = take(&p->arguments[i], PyTuple_GET_ITEM(in[2], i));
    return found;
}

static PyObject *repeat(PyObject *self, PyObject *const *in, Py_ssize_t count)
{
    Prepared *p = PyCapsule_GetPointer(self, PREPARED);
    if (!p)
        return NULL;
    if (count != 5)
        return PyErr_Format(PyExc_TypeError, "repeat: expected 5 arguments, got %zd", count);
    int found = matches(p, in);
    if (found < 0)
        return NULL;
    return PyBool_FromLong(found && p->entry(p->config, p->function, p->params, NULL) == 0);
}

static PyMethodDef repeat_method = {
    "repeat", (PyCFunction)(void (*)(void))repeat, METH_FASTCALL,
    "repeat(stream, grid, args, pdl, backend): whether it was launched."};

static void destroy(PyObject *capsule)
{
    Prepared *p = PyCapsule_GetPointer(capsule, PREPARED);
    for (Py_ssize_t i = 0; i < p->count; i++) {
        Py_XDECREF(p->arguments[i].type);
        Py_XDECREF(p->arguments[i].value);
    }
    Py_XDECREF(p->keep);
    Py_XDECREF(p->stream);
    Py_XDECREF(p->handle);
    Py_XDECREF(p->grid);
    Py_XDECREF(p->pdl);
    Py_XDECREF(p->backend);
    PyMem_Free(p->arguments);
    PyMem_Free(p);
}

/* Remembers an argument.  1, 0 for one that has no short way, or -1 with an error. */
static int remember(Argument *a, PyObject *x, PyObject *kind, PyObject *slot)
{
    a->kind = (char)PyUnicode_READ_CHAR(kind, 0);
    a->type = (PyTypeObject *)Py_NewRef(Py_TYPE(x));
    if (a->kind == 'c') {
        a->value = Py_NewRef(x);
        return 1;
    }
    a->slot = PyLong_AsVoidPtr(slot);
    if (!a->slot)
        return PyErr_Occurred() ? -1 : 0;
    if (a->kind == 'i' || a->kind == 'f')
        return a->type == (a->kind == 'i' ? &PyLong_Type : &PyFloat_Type);
    a->view = view_of(a->type);
    if (!a->view || !read_tensor(a, x, &a->first))
        return 0;
    memcpy(a->sizes, a->first.shape, sizeof(int64_t) * (size_t)a->first.rank);
    memcpy(a->sizes + RANKS, a->first.strides, sizeof(int64_t) * (size_t)a->first.rank);
    return 1;
}

static PyObject *prepare(PyObject *module, PyObject *in)
{
    PyObject *entry, *config, *function, *params, *kinds, *slots, *args;
    Prepared *p = PyMem_Calloc(1, sizeof *p);
    PyObject *capsule = p ? PyCapsule_New(p, PREPARED, destroy) : PyErr_NoMemory();
    (void)module;
    if (!capsule) {
        PyMem_Free(p);
        return NULL;
    }
    int good = PyArg_ParseTuple(in, "OOOOOO!O!OOO!OO", &p->keep, &entry, &config, &function, &params,
                                &PyTuple_Type, &kinds, &PyTuple_Type, &slots, &p->stream, &p->grid,
                                &PyTuple_Type, &args, &p->pdl, &p->backend);
    if (!good) /* the fields may be half filled, with references that are not ours */
        p->keep = p->stream = p->grid = p->pdl = p->backend = NULL;
    Py_XINCREF(p->keep);
    Py_XINCREF(p->stream);
    Py_XINCREF(p->grid);
    Py_XINCREF(p->pdl);
    Py_XINCREF(p->backend);
    good = good && (p->handle = handle_of(p->stream)) != NULL;
    if (good) {
        p->entry = (LaunchEx)PyLong_AsVoidPtr(entry);
        p->config = PyLong_AsVoidPtr(config);
        p->function = PyLong_AsVoidPtr(function);
        p->params = PyLong_AsVoidPtr(params);
        Py_ssize_t count = PyTuple_GET_SIZE(args);
        if (!PyErr_Occurred() &&
            (PyTuple_GET_SIZE(kinds) != count || PyTuple_GET_SIZE(slots) != count))
            PyErr_SetString(PyExc_ValueError, "prepare: kinds, slots and args differ in length");
        if (!PyErr_Occurred() && !(p->arguments = PyMem_Calloc(count + 1, sizeof *p->arguments)))
            PyErr_NoMemory();
        good = !PyErr_Occurred();
        for (Py_ssize_t i = 0; good && i < count; i++) {
            p->count = i + 1;
            int found = remember(&p->arguments[i], PyTuple_GET_ITEM(args, i),
                                 PyTuple_GET_ITEM(kinds, i), PyTuple_GET_ITEM(slots, i));
            good = found > 0;
        }
    }
    PyObject *result = good ? PyCFunction_New(&repeat_method, capsule) : NULL;
    Py_DECREF(capsule);
    if (!result && !PyErr_Occurred())
        Py_RETURN_NONE;
    return result;
}

static PyMethodDef methods[] = {
    {"prepare", prepare, METH_VARARGS,
     "prepare(keep, entry, config, function, params, kinds, slots, stream, grid, args, pdl, backend)"
     "\nA callable that repeats a launch and holds `keep`, or None where an argument has no short "
     "way.  entry, config, function, params and the slots are addresses."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "repeat", NULL, -1, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_repeat(void)
{
    handle_name = PyUnicode_InternFromString("cuda_stream");
    return handle_name ? PyModule_Create(&definition) : NULL;
}
