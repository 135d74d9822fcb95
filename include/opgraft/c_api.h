// The C contract between a pack, which is a library of operators, and the host that runs them.
//
// A pack exports `opgraft_pack`, which describes its operators. It calls the host through the
// tables of functions that the host passes to it. A host is the adapter for ONNX Runtime, which is
// compiled into every pack and into libopgraft, or any program with tensors of its own. Authors of
// operators use `opgraft/op.h` instead of this header.
//
// Every function that returns an int returns 0 on success. Otherwise the host has recorded the
// error, either itself or because the pack called `fail`, and the pack must return a non-zero value
// in turn. No function throws. Pointers belong to the side that provides them: those of a pack are
// valid forever, those of a host until the call that provided them returns.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented with every change of this file. A host runs packs of this version and older ones. */
#define OPGRAFT_PACK_VERSION 3

/* Arbitrary bytes without a terminating zero. */
typedef struct OpgraftText {
  const char* data;
  size_t size;
} OpgraftText;

/* A dense tensor in row-major order. Elements of type string are OpgraftText. */
typedef struct OpgraftTensor {
  void* data; /* never NULL unless the tensor is absent, even if it is empty */
  const int64_t* shape;
  size_t rank;
  int32_t element_type; /* ONNX's TensorProto.DataType; 0: the tensor is absent */
} OpgraftTensor;

/* The value of an attribute. A single value is a list of one. */
typedef struct OpgraftAttribute {
  int32_t kind; /* ONNX's AttributeProto.AttributeType; 0: the attribute is absent */
  size_t count;
  const float* floats;
  const int64_t* integers;
  const OpgraftText* texts;
  const OpgraftTensor* tensors;
} OpgraftAttribute;

/* A dimension, which may be known as a size, as a symbol such as "n", or not at all. */
typedef struct OpgraftDimension {
  int64_t size;       /* -1: not known */
  const char* symbol; /* NULL or empty: none */
} OpgraftDimension;

/* What is known about a value before a model runs. */
typedef struct OpgraftShape {
  int32_t element_type; /* 0: not known, or the value is absent */
  int32_t has_rank;
  size_t rank;
  const OpgraftDimension* dimensions;
} OpgraftShape;

/* An error. `kind` is an ErrorKind of opgraft/status.h. The host prepends the node's name. */
typedef struct OpgraftError {
  int32_t kind;
  OpgraftText text;
} OpgraftError;

/* A node for which a kernel is being created. */
typedef struct OpgraftNode OpgraftNode;
typedef struct OpgraftNodeTable {
  void (*fail)(OpgraftNode*, const OpgraftError*);
  OpgraftText (*name)(OpgraftNode*);
  size_t (*input_count)(OpgraftNode*);
  size_t (*output_count)(OpgraftNode*);
  /* Sets the element type, 0 for an input that is absent. */
  int (*input_type)(OpgraftNode*, size_t index, int32_t* element_type);
  /* Gets an attribute of the given kind. Fails if the attribute has another kind. */
  int (*attribute)(OpgraftNode*, const char* name, int32_t kind, OpgraftAttribute*);
  /* Gets the value of an input that is the same in every run, else an absent tensor. */
  int (*constant)(OpgraftNode*, size_t index, OpgraftTensor*);
} OpgraftNodeTable;
struct OpgraftNode {
  const OpgraftNodeTable* table;
};

/* One run of a kernel. Only the thread that runs the kernel may call these functions;
   `parallel_for` calls its body on other threads too. */
typedef struct OpgraftCall OpgraftCall;
typedef struct OpgraftCallTable {
  void (*fail)(OpgraftCall*, const OpgraftError*);
  int (*input)(OpgraftCall*, size_t index, OpgraftTensor*);
  /* Allocates an output; gives an absent tensor if nothing uses the output. At most one call for
     each output; not for strings. */
  int (*output)(OpgraftCall*, size_t index, const int64_t* shape, size_t rank, OpgraftTensor*);
  /* Stores a whole output of type string. */
  int (*store_texts)(OpgraftCall*, size_t index, const int64_t* shape, size_t rank,
                     const OpgraftText* texts);
  /* Allocates memory for the kernel until the call returns, aligned for any instruction. For "cuda"
     it is device memory, valid until the work is done that the kernel has put on the stream. */
  int (*scratch)(OpgraftCall*, size_t bytes, void** memory);
  /* Calls `body(argument, i)` for each i below `total` on the host's threads, divided into
     `batches` (0: the host decides). Returns when all are done. The body must not throw. */
  int (*parallel_for)(OpgraftCall*, size_t total, size_t batches, void (*body)(void*, size_t),
                      void* argument);
  /* Severity 0 (verbose) to 4 (fatal), as in ONNX Runtime. */
  int (*log)(OpgraftCall*, int32_t severity, const OpgraftText* text);
  /* From version 2 on, for "cuda": the stream (CUstream) of the run, which takes all the kernel's
     work. NULL is a valid stream, CUDA's default one. */
  int (*stream)(OpgraftCall*, void** stream);
} OpgraftCallTable;
struct OpgraftCall {
  const OpgraftCallTable* table;
};

/* A node for which the shapes of the outputs are inferred. */
typedef struct OpgraftInference OpgraftInference;
typedef struct OpgraftInferenceTable {
  void (*fail)(OpgraftInference*, const OpgraftError*);
  size_t (*input_count)(OpgraftInference*);
  size_t (*output_count)(OpgraftInference*); /* SIZE_MAX: not known */
  int (*input)(OpgraftInference*, size_t index, OpgraftShape*);
  int (*attribute)(OpgraftInference*, const char* name, int32_t kind, OpgraftAttribute*);
  /* Gets the value of an input if it is already known, else an absent tensor. */
  int (*constant)(OpgraftInference*, size_t index, OpgraftTensor*);
  int (*set_output)(OpgraftInference*, size_t index, const OpgraftShape*);
} OpgraftInferenceTable;
struct OpgraftInference {
  const OpgraftInferenceTable* table;
};

typedef enum OpgraftOccurrence {
  OPGRAFT_REQUIRED = 0,
  OPGRAFT_OPTIONAL = 1,
  OPGRAFT_VARIADIC = 2 /* `minimum` values or more; only the last parameter */
} OpgraftOccurrence;

typedef struct OpgraftParameter {
  const char* name;
  const char* description;
  int32_t occurrence;
  uint32_t type;    /* index into the operator's types */
  uint32_t minimum; /* of a variadic parameter */
} OpgraftParameter;

/* A type that one or more parameters share. */
typedef struct OpgraftType {
  const char* name; /* "T" */
  const char* description;
  const int32_t* allowed; /* element types; empty: any */
  size_t allowed_count;
  int32_t is_tied; /* all values of this type have the same element type */
} OpgraftType;

typedef struct OpgraftAttributeParameter {
  const char* name;
  const char* description;
  int32_t kind;
  int32_t is_required;
  OpgraftAttribute fallback; /* the default; kind 0: none */
} OpgraftAttributeParameter;

/* An output that may reuse the memory of an input. */
typedef struct OpgraftInPlace {
  uint32_t input;
  uint32_t output;
} OpgraftInPlace;

typedef struct OpgraftKernel OpgraftKernel;
struct OpgraftKernel {
  const char* device;   /* "cpu"; from version 2 on also "cuda" */
  const int32_t* types; /* the element type of each of the operator's types; 0: any allowed */
  int (*create)(const OpgraftKernel*, OpgraftNode*, void** state);
  /* Calls with the same state may overlap. */
  int (*compute)(void* state, OpgraftCall*);
  void (*destroy)(void* state);
  /* From version 2 on, for "cuda": 1 for each of the operator's inputs whose elements the kernel
     needs in host memory, 0 for those on the device; NULL: all are on the device. */
  const uint8_t* host_inputs;
};

/* Maps an argument if an operator stands for a call of torch. `name` is an attribute or an input of
   the operator; if it is neither, it is an argument of torch that must have `value`. */
typedef struct OpgraftTorchArgument {
  const char* name;
  const char* argument; /* the argument of torch to take it from; NULL: it is `value` */
  OpgraftAttribute value;
} OpgraftTorchArgument;

/* An operator of torch that an operator of the pack can stand for. Tensors are passed in order and
   attributes by name, except for those listed in `arguments`. */
typedef struct OpgraftTorchCall {
  const char* name; /* "aten::triu", "aten::div.Tensor_mode" */
  const OpgraftTorchArgument* arguments;
  size_t argument_count;
  /* Element types of the first tensor for which torch's own translation is the better one. */
  const int32_t* left_to_torch;
  size_t left_to_torch_count;
} OpgraftTorchCall;

typedef struct OpgraftOperator OpgraftOperator;
struct OpgraftOperator {
  const char* domain;
  const char* name;
  const char* documentation;
  const char* torch_name; /* "aten::gelu, aten::silu": the names of all its calls; empty: none */
  int32_t since_version;
  const OpgraftParameter* inputs;
  size_t input_count;
  const OpgraftParameter* outputs;
  size_t output_count;
  const OpgraftType* types;
  size_t type_count;
  const OpgraftAttributeParameter* attributes;
  size_t attribute_count;
  const OpgraftInPlace* in_place;
  size_t in_place_count;
  const OpgraftKernel* const* kernels;
  size_t kernel_count;
  /* Sets the outputs of which at least the rank is known; NULL: no rule. */
  int (*infer)(const OpgraftOperator*, OpgraftInference*);
  /* From version 3 on. In older packs each name in `torch_name` is a call without `arguments`. */
  const OpgraftTorchCall* torch_calls;
  size_t torch_call_count;
};

typedef struct OpgraftPack {
  uint32_t version;    /* OPGRAFT_PACK_VERSION at build time; the layout below depends on it */
  const char* problem; /* why the pack cannot be used; NULL: it can */
  const OpgraftOperator* const* operators;
  size_t operator_count;
} OpgraftPack;

/* The function that a pack exports, beside RegisterCustomOps for ONNX Runtime. */
const OpgraftPack* opgraft_pack(void);
#define OPGRAFT_PACK_SYMBOL "opgraft_pack"

#ifdef __cplusplus
}
#endif
