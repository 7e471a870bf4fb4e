// A library that shared_library_test opens.

extern "C" int AdaptdlTestAnswer(int question) { return question + 1; }
