/* nameless: a file that goes with its descriptor, whatever happens to the process. */
#ifndef WEIR_BASE_NAMELESS_H
#define WEIR_BASE_NAMELESS_H

/* A new file in the folder, open for reading and writing, without a name. −1 with errno. */
int weir_open_nameless(const char *folder);

#endif
