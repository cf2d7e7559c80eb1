/* A stand-in for libcuda.so.1 that runs no kernel and writes down what it was asked.
 *
 * Every interesting call becomes one JSON line in the file $TW_FAKE_LOG.  The environment plays the
 * machine: TW_FAKE_DEVICES (how many GPUs, 2), TW_FAKE_PARAMS (sizes in bytes of the kernel's
 * parameters, to be copied into the log), TW_FAKE_FAIL ("cuModuleLoadData=209": that call fails).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
typedef int status;

struct attribute { int id; int gap; union { unsigned word[16]; } value; };
struct config {
  unsigned grid[3], block[3], smem;
  void *stream;
  struct attribute *attributes;
  unsigned count;
};

static __thread uintptr_t current;  /* a new thread has no context */

static int number(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

static void note(const char *format, ...) {
  const char *path = getenv("TW_FAKE_LOG");
  if (!path) return;
  FILE *out = fopen(path, "a");
  if (!out) return;
  va_list rest;
  va_start(rest, format);
  vfprintf(out, format, rest);
  va_end(rest);
  fputc('\n', out);
  fclose(out);
}

/* The status that the environment ordered for `call`. */
static status ordered(const char *call) {
  const char *order = getenv("TW_FAKE_FAIL");
  size_t length = strlen(call);
  if (order && !strncmp(order, call, length) && order[length] == '=') return atoi(order + length + 1);
  return 0;
}

API status cuInit(unsigned flags) { (void)flags; return ordered("cuInit"); }
API status cuDriverGetVersion(int *version) { *version = 13010; return 0; }
API status cuDeviceGetCount(int *count) { *count = number("TW_FAKE_DEVICES", 2); return 0; }
API status cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
API status cuDeviceGetName(char *name, int length, int device) {
  snprintf(name, length, "Paper GPU %d", device);
  return 0;
}
API status cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 1ull << 37; return 0; }
API status cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case 13: *value = 1980000; break;
    case 16: *value = 132; break;
    case 36: *value = 3201000; break;
    case 38: *value = 50 << 20; break;
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    case 81: *value = 233472; break;
    case 97: *value = 232448; break;
    default: *value = -1;
  }
  return 0;
}

API status cuDevicePrimaryCtxRetain(void **context, int device) {
  note("{\"call\": \"retain\", \"device\": %d}", device);
  *context = (void *)(uintptr_t)(0x1000 + device);
  return 0;
}
API status cuCtxGetCurrent(void **context) { *context = (void *)current; return 0; }
API status cuCtxSetCurrent(void *context) { current = (uintptr_t)context; return 0; }
API status cuCtxGetDevice(int *device) { *device = (int)(current - 0x1000); return current ? 0 : 201; }
API status cuCtxGetId(void *context, unsigned long long *id) {
  *id = (uintptr_t)context;
  return 0;
}
API status cuCtxSynchronize(void) { return ordered("cuCtxSynchronize"); }

API status cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  *address = (uint64_t)(uintptr_t)malloc(bytes);
  note("{\"call\": \"alloc\", \"address\": %" PRIu64 ", \"bytes\": %zu}", *address, bytes);
  return ordered("cuMemAlloc");
}
API status cuMemFree_v2(uint64_t address) {
  note("{\"call\": \"free\", \"address\": %" PRIu64 "}", address);
  free((void *)(uintptr_t)address);
  return 0;
}
API status cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  note("{\"call\": \"up\", \"address\": %" PRIu64 ", \"bytes\": %zu}", to, bytes);
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}
API status cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  note("{\"call\": \"down\", \"address\": %" PRIu64 ", \"bytes\": %zu}", from, bytes);
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return 0;
}
API status cuMemsetD8_v2(uint64_t address, unsigned char value, size_t bytes) {
  note("{\"call\": \"fill\", \"address\": %" PRIu64 ", \"bytes\": %zu}", address, bytes);
  memset((void *)(uintptr_t)address, value, bytes);
  return 0;
}

API status cuModuleLoadData(void **module, const void *image) {
  note("{\"call\": \"load\", \"context\": %" PRIuPTR ", \"first\": %d}", current,
       *(const unsigned char *)image);
  *module = (void *)0x3000;
  return ordered("cuModuleLoadData");
}
API status cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)module;
  note("{\"call\": \"function\", \"name\": \"%s\"}", name);
  *function = (void *)0x5000;
  return strcmp(name, "absent") ? 0 : 500;
}
API status cuFuncGetAttribute(int *value, int attribute, void *function) {
  (void)function;
  *value = attribute == 0 ? 384 : attribute == 1 ? 1024 : attribute == 4 ? 168 : 0;
  return 0;
}
API status cuFuncSetAttribute(void *function, int attribute, int value) {
  (void)function;
  note("{\"call\": \"set\", \"attribute\": %d, \"value\": %d}", attribute, value);
  return 0;
}

API status cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address,
                                  const uint64_t *dims, const uint64_t *strides, const unsigned *box,
                                  const unsigned *steps, int interleave, int swizzle, int promotion,
                                  int fill) {
  char lists[4][256] = {"", "", "", ""};
  for (unsigned i = 0; i < rank; i++) {
    const char *comma = i ? ", " : "";
    sprintf(lists[0] + strlen(lists[0]), "%s%" PRIu64, comma, dims[i]);
    sprintf(lists[2] + strlen(lists[2]), "%s%u", comma, box[i]);
    sprintf(lists[3] + strlen(lists[3]), "%s%u", comma, steps[i]);
    if (i + 1 < rank) sprintf(lists[1] + strlen(lists[1]), "%s%" PRIu64, comma, strides[i]);
  }
  note("{\"call\": \"encode\", \"type\": %d, \"rank\": %u, \"address\": %" PRIuPTR
       ", \"dims\": [%s], \"strides\": [%s], \"box\": [%s], \"steps\": [%s], \"interleave\": %d, "
       "\"swizzle\": %d, \"promotion\": %d, \"fill\": %d}",
       type, rank, (uintptr_t)address, lists[0], lists[1], lists[2], lists[3], interleave, swizzle,
       promotion, fill);
  memset(map, 0xAB, 128);
  memcpy(map, &address, sizeof address);
  return ordered("cuTensorMapEncodeTiled");
}

/* Parameters in hexadecimal, each as long as TW_FAKE_PARAMS says. */
static void dump_params(void **params, char *out) {
  char sizes[256];
  snprintf(sizes, sizeof sizes, "%s", getenv("TW_FAKE_PARAMS") ? getenv("TW_FAKE_PARAMS") : "");
  int index = 0;
  for (char *rest = sizes, *word; (word = strtok_r(rest, " ", &rest)); index++) {
    out += sprintf(out, "%s\"", index ? ", " : "");
    for (int byte = 0; byte < atoi(word); byte++)
      out += sprintf(out, "%02x", ((unsigned char *)params[index])[byte]);
    out += sprintf(out, "\"");
  }
  *out = 0;
}

API status cuLaunchKernelEx(const struct config *c, void *function, void **params, void **extra) {
  if (!current) return 201;
  status wanted = ordered("cuLaunchKernelEx");
  if (!getenv("TW_FAKE_LOG")) return wanted;
  char attributes[512] = "", values[4096] = "";
  for (unsigned i = 0; i < c->count; i++) {
    const struct attribute *a = &c->attributes[i];
    sprintf(attributes + strlen(attributes), "%s[%d, %u, %u, %u]", i ? ", " : "", a->id,
            a->value.word[0], a->value.word[1], a->value.word[2]);
  }
  if (params) dump_params(params, values);
  note("{\"call\": \"launch\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"smem\": %u, "
       "\"stream\": %" PRIuPTR ", \"function\": %" PRIuPTR ", \"extra\": %d, \"context\": %" PRIuPTR
       ", \"attributes\": [%s], \"params\": [%s]}",
       c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->smem,
       (uintptr_t)c->stream, (uintptr_t)function, extra != NULL, current, attributes, values);
  return wanted;
}

static const struct { int code; const char *name, *text; } ERRORS[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};
API status cuGetErrorName(status code, const char **name) {
  for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
    if (ERRORS[i].code == code) { *name = ERRORS[i].name; return 0; }
  *name = NULL;
  return 1;
}
API status cuGetErrorString(status code, const char **text) {
  for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
    if (ERRORS[i].code == code) { *text = ERRORS[i].text; return 0; }
  *text = NULL;
  return 1;
}

/* cuda.bindings asks for every entry point by name; those that we do not play do nothing. */
static status nothing(void) { return 0; }
API status cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags, int *found) {
  (void)version, (void)flags;
  Dl_info self;
  char versioned[128];
  dladdr((void *)cuInit, &self);
  void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  snprintf(versioned, sizeof versioned, "%s_v2", name);
  void *address = dlsym(library, name);
  if (!address) address = dlsym(library, versioned);
  *entry = address ? address : (void *)nothing;
  if (found) *found = 0;
  return 0;
}
API status cuGetProcAddress(const char *name, void **entry, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, entry, version, flags, NULL);
}
