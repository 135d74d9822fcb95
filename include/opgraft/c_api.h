// The C contract between a pack, which is a library of operators, and the host that runs them.
//
// A pack exports `opgraft_pack`, which describes its operators, and calls back by the tables that
// the host gives it: ONNX Runtime's adapter, which is compiled into every pack and into libopgraft,
// or a host that has tensors of its own. Authors write `opgraft/op.h` instead of this.
//
// Every function that returns an int returns 0 where all went well. If not, the error is with the
// host, by its own doing or by `fail`, and the pack returns what is not 0 in its turn. Nothing
// throws. Pointers are the giver's: those of a pack live for good, those of a host until the call
// is over that gave them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised with every change of this file. A host runs packs of its own version and of older ones. */
#define OPGRAFT_PACK_VERSION 3

/* Any bytes; no terminating zero. */
typedef struct OpgraftText {
  const char* data;
  size_t size;
} OpgraftText;

/* A dense tensor in row-major order. Elements of type string are OpgraftText. */
typedef struct OpgraftTensor {
  void* data; /* never NULL for a tensor that is there, even if it is empty */
  const int64_t* shape;
  size_t rank;
  int32_t element_type; /* a number of ONNX's TensorProto.DataType; 0: there is no tensor */
} OpgraftTensor;

/* A value of one of ONNX's attribute kinds: a single one is a list of one. */
typedef struct OpgraftAttribute {
  int32_t kind; /* a number of AttributeProto.AttributeType; 0: there is no attribute */
  size_t count;
  const float* floats;
  const int64_t* integers;
  const OpgraftText* texts;
  const OpgraftTensor* tensors;
} OpgraftAttribute;

/* A dimension that need not be known: a size, or a symbol such as "n", or neither. */
typedef struct OpgraftDimension {
  int64_t size;       /* -1: not known */
  const char* symbol; /* NULL or empty: none */
} OpgraftDimension;

/* What is known of a value before a model runs. */
typedef struct OpgraftShape {
  int32_t element_type; /* 0: not known, or the value is absent */
  int32_t has_rank;
  size_t rank;
  const OpgraftDimension* dimensions;
} OpgraftShape;

/* An error of a kind that opgraft/status.h numbers. The host puts the node's name before it. */
typedef struct OpgraftError {
  int32_t kind;
  OpgraftText text;
} OpgraftError;

/* A node whose kernel is being made. */
typedef struct OpgraftNode OpgraftNode;
typedef struct OpgraftNodeTable {
  void (*fail)(OpgraftNode*, const OpgraftError*);
  OpgraftText (*name)(OpgraftNode*);
  size_t (*input_count)(OpgraftNode*);
  size_t (*output_count)(OpgraftNode*);
  /* The element type, 0 for an input that is absent. */
  int (*input_type)(OpgraftNode*, size_t index, int32_t* element_type);
  /* The attribute as of `kind`; an error where it is there and of another. */
  int (*attribute)(OpgraftNode*, const char* name, int32_t kind, OpgraftAttribute*);
  /* The value of an input that is the same in every run; no tensor where it is not. */
  int (*constant)(OpgraftNode*, size_t index, OpgraftTensor*);
} OpgraftNodeTable;
struct OpgraftNode {
  const OpgraftNodeTable* table;
};

/* One run of a kernel. May be called from the thread that runs it alone, `parallel_for` aside. */
typedef struct OpgraftCall OpgraftCall;
typedef struct OpgraftCallTable {
  void (*fail)(OpgraftCall*, const OpgraftError*);
  int (*input)(OpgraftCall*, size_t index, OpgraftTensor*);
  /* Memory for an output; no tensor where nobody wants it. Once for each; not for strings. */
  int (*output)(OpgraftCall*, size_t index, const int64_t* shape, size_t rank, OpgraftTensor*);
  /* Stores a whole output of type string. */
  int (*store_texts)(OpgraftCall*, size_t index, const int64_t* shape, size_t rank,
                     const OpgraftText* texts);
  /* Memory that is the kernel's until the call is over, aligned for any instruction. For "cuda"
     memory of the device, until the work is over that the kernel has put on the stream. */
  int (*scratch)(OpgraftCall*, size_t bytes, void** memory);
  /* Calls `body(argument, i)` for each i below `total`, by the host's threads, in so many batches
     (0: as the host thinks best), and returns when all are done. The body must not throw. */
  int (*parallel_for)(OpgraftCall*, size_t total, size_t batches, void (*body)(void*, size_t),
                      void* argument);
  /* Severity 0 (verbose) to 4 (fatal), as in ONNX Runtime. */
  int (*log)(OpgraftCall*, int32_t severity, const OpgraftText* text);
  /* From version 2 on: of a kernel for "cuda", the stream (CUstream) of the run, which all its work
     goes to. NULL is a stream too, CUDA's default one. */
  int (*stream)(OpgraftCall*, void** stream);
} OpgraftCallTable;
struct OpgraftCall {
  const OpgraftCallTable* table;
};

/* A node whose outputs' shapes are asked for. */
typedef struct OpgraftInference OpgraftInference;
typedef struct OpgraftInferenceTable {
  void (*fail)(OpgraftInference*, const OpgraftError*);
  size_t (*input_count)(OpgraftInference*);
  size_t (*output_count)(OpgraftInference*); /* SIZE_MAX: not known */
  int (*input)(OpgraftInference*, size_t index, OpgraftShape*);
  int (*attribute)(OpgraftInference*, const char* name, int32_t kind, OpgraftAttribute*);
  /* The value of an input where it is known already; no tensor where it is not. */
  int (*constant)(OpgraftInference*, size_t index, OpgraftTensor*);
  int (*set_output)(OpgraftInference*, size_t index, const OpgraftShape*);
} OpgraftInferenceTable;
struct OpgraftInference {
  const OpgraftInferenceTable* table;
};

typedef enum OpgraftOccurrence {
  OPGRAFT_REQUIRED = 0,
  OPGRAFT_OPTIONAL = 1,
  OPGRAFT_VARIADIC = 2 /* any number from `minimum` on; the last parameter only */
} OpgraftOccurrence;

typedef struct OpgraftParameter {
  const char* name;
  const char* description;
  int32_t occurrence;
  uint32_t type;    /* which of the operator's types */
  uint32_t minimum; /* of a variadic one */
} OpgraftParameter;

/* A type that one or more parameters have. */
typedef struct OpgraftType {
  const char* name; /* "T" */
  const char* description;
  const int32_t* allowed; /* element types; none: any */
  size_t allowed_count;
  int32_t is_tied; /* all values of it have the same one */
} OpgraftType;

typedef struct OpgraftAttributeParameter {
  const char* name;
  const char* description;
  int32_t kind;
  int32_t is_required;
  OpgraftAttribute fallback; /* of kind 0: none */
} OpgraftAttributeParameter;

/* An output that may have the memory of an input. */
typedef struct OpgraftInPlace {
  uint32_t input;
  uint32_t output;
} OpgraftInPlace;

typedef struct OpgraftKernel OpgraftKernel;
struct OpgraftKernel {
  const char* device;   /* "cpu"; from version 2 on also "cuda" */
  const int32_t* types; /* what each of the operator's types is here; 0: any that is allowed */
  int (*create)(const OpgraftKernel*, OpgraftNode*, void** state);
  /* Calls of one state may overlap. */
  int (*compute)(void* state, OpgraftCall*);
  void (*destroy)(void* state);
  /* From version 2 on. For "cuda", 1 for each of the operator's inputs whose elements the kernel
     wants in host memory, 0 for those on the device; NULL: all are on the device. */
  const uint8_t* host_inputs;
};

/* What an argument is where an operator stands for a call of torch's. `name` is an attribute or an
   input of the operator; if it is neither, it is an argument of torch's that must have `value`. */
typedef struct OpgraftTorchArgument {
  const char* name;
  const char* argument; /* the argument of torch's that it is; NULL: it is `value` */
  OpgraftAttribute value;
} OpgraftTorchArgument;

/* An operator of torch that one of the pack can stand for. Tensors are handed over in their order,
   attributes by their names, but for what `arguments` says. */
typedef struct OpgraftTorchCall {
  const char* name; /* "aten::triu", "aten::div.Tensor_mode" */
  const OpgraftTorchArgument* arguments;
  size_t argument_count;
  /* Element types of the first tensor that are better left to the translation that torch has. */
  const int32_t* left_to_torch;
  size_t left_to_torch_count;
} OpgraftTorchCall;

typedef struct OpgraftOperator OpgraftOperator;
struct OpgraftOperator {
  const char* domain;
  const char* name;
  const char* documentation;
  const char* torch_name; /* "aten::gelu, aten::silu": of all its calls; empty: none */
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
  /* Sets the outputs that it knows at least the rank of; NULL: no rule. */
  int (*infer)(const OpgraftOperator*, OpgraftInference*);
  /* From version 3 on; before, each name in `torch_name` is a call without `arguments`. */
  const OpgraftTorchCall* torch_calls;
  size_t torch_call_count;
};

typedef struct OpgraftPack {
  uint32_t version;    /* OPGRAFT_PACK_VERSION when it was built; what follows depends on it */
  const char* problem; /* why it cannot be used; NULL: it can */
  const OpgraftOperator* const* operators;
  size_t operator_count;
} OpgraftPack;

/* What a pack exports, beside RegisterCustomOps for ONNX Runtime. */
const OpgraftPack* opgraft_pack(void);
#define OPGRAFT_PACK_SYMBOL "opgraft_pack"

#ifdef __cplusplus
}
#endif
