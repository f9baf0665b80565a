/*
 * old_core.c -- an OpenBLAS that does not know the processor, to be loaded in
 * front of the true one. It says which kernels it was told to take.
 */
#include <stdio.h>
#include <stdlib.h>

char *openblas_get_corename(void);

char *openblas_get_corename(void)
{
    static char old[] = "Prescott";
    char *told = getenv("OPENBLAS_CORETYPE");
    return told != NULL ? told : old;
}

__attribute__((constructor)) static void say(void)
{
    fprintf(stderr, "kernels of %s\n", openblas_get_corename());
}
