/* A libcuda.so.1 whose functions are wherever the test says: see fake_driver.py. */
#include <stddef.h>
#include <stdint.h>

typedef void *(*Resolver)(const char *name);
static Resolver resolver;

void fake_connect(Resolver given) { resolver = given; }

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    (void)version;
    (void)flags;
    *function = resolver ? resolver(name) : NULL;
    if (status)
        *status = *function == NULL; /* SUCCESS or SYMBOL_NOT_FOUND */
    return *function ? 0 : 500;      /* CUDA_ERROR_NOT_FOUND */
}

/* What a launch costs apart from the driver itself. */
static void *context;
long fake_launches;

void fake_set_context(void *given) { context = given; }
int fake_cuCtxGetCurrent(void **out) { *out = context; return 0; }
int fake_cuCtxPushCurrent(void *given) { context = given; return 0; }
int fake_cuCtxPopCurrent(void **out) { *out = context; context = NULL; return 0; }
int fake_cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz;
    (void)shared, (void)stream, (void)params, (void)extra;
    fake_launches++;
    return 0;
}
