# The pure parts of the core, and what happens when a device fails below it.
seam_test(core SOURCES test_core.c LABELS short)
seam_test(poison SOURCES test_poison.c LABELS short)
seam_test(stop SOURCES test_stop.c LABELS short)
