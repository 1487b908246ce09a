# The corpus: what it makes, and the profiles it takes.
seam_test(corpus SOURCES corpus_support.c test_corpus.c
  INCLUDE ${PROJECT_SOURCE_DIR}/corpus LABELS corpus TIMEOUT 600)
target_compile_definitions(test_corpus PRIVATE
  CORPUS_GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/golden/corpus.txt")

seam_test(corpus_queries SOURCES corpus_support.c test_corpus_queries.c
  INCLUDE ${PROJECT_SOURCE_DIR}/corpus LABELS corpus TIMEOUT 600)

seam_test(corpus_profiles SOURCES corpus_support.c test_corpus_profiles.c
  INCLUDE ${PROJECT_SOURCE_DIR}/corpus LABELS corpus TIMEOUT 600)
target_compile_definitions(test_corpus_profiles PRIVATE
  CORPUS_SOURCE="${PROJECT_SOURCE_DIR}")
